"""What every probe begins with: Metadata of its topic, and the topic found in it."""

from kipctl.errors import UsageError
from kipctl.protocol.api import ApiKey, encode_request
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import encode
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse, metadata_request
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.clock import now_us
from kipctl.trace.codes import MetadataCause
from kipctl.trace.columns import RpcRow
from kipctl.transport.access import Access
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster


def first_metadata(topic: str, cluster: Cluster) -> tuple[MetadataResponse, RpcRow]:
    """Metadata of the topic, and the request for it as the trace has it.

    The codec is exact, so the sizes are those of the frames that went over the wire.
    """
    asked_us = now_us()
    answer = cluster.metadata([topic])
    answered_us = now_us()
    api = MetadataRequest.api
    version = min(api.versions[1], cluster.any_broker().api_versions[api.key][1])
    request = metadata_request([topic])
    header = 8 + (version >= api.flexible_since)  # length, correlation id, no tags
    return answer, RpcRow(
        connection=0,
        broker=-1,
        api_key=ApiKey.METADATA,
        api_version=version,
        request_bytes=len(encode_request(request, version, 0, cluster.client_id)),
        response_bytes=header + len(encode(answer, version)),
        sent_us=asked_us,
        received_us=answered_us,
        queued_behind=0,
        queued_behind_us=0,
        cause=MetadataCause.START,
        topics=1,
        critical=False,
        error=0,
    )


def find_topic(name: str, metadata: MetadataResponse, access: Access) -> tuple[Topic, int]:
    """The topic and its number of partitions. Raises UsageError when there is none such."""
    topic = next((t for t in metadata.topics if t.name == name), None)
    if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UsageError(
            f"Topic {name!r} does not exist on this cluster.",
            "Create it first, or leave --topic out: kipctl then makes and removes its own.",
        )
    if topic.error_code:
        raise refusal(f"Topic {name!r}", topic.error_code, ApiKey.METADATA, access, name)
    return Topic(name, topic.topic_id), len(topic.partitions)
