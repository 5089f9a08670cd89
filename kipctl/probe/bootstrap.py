"""What every probe begins with: Metadata of its topic, and the topic found in it."""

from kipctl.errors import RefusedError, UsageError
from kipctl.protocol.api import ApiKey, encode_request
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.protocol.message import encode
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kipctl.protocol.produce_frames import Topic
from kipctl.transport.loop import InFlight
from kipctl.transport.request import Cluster


def as_flight(
    answer: MetadataResponse, topic: str, client_id: str, cluster: Cluster, asked_us: int
) -> InFlight:
    """The bootstrap's Metadata request as the trace has it; `subject` is the answer's size.

    The codec is exact, so the sizes are those of the frames that went over the wire.
    """
    api = MetadataRequest.api
    highest = cluster.any_broker().api_versions[api.key][1]
    version = min(api.versions[1], highest)
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False
    )
    asked = encode_request(request, version, 0, client_id)
    header = 8 + (version >= api.flexible_since)  # length, correlation id, no tags
    answered = header + len(encode(answer, version))
    return InFlight(0, ApiKey.METADATA, version, len(asked), asked_us, 0, answered)


def find_topic(name: str, metadata: MetadataResponse) -> tuple[Topic, int]:
    """The topic and its number of partitions. Raises UsageError when there is none such."""
    found = next((t for t in metadata.topics if t.name == name), None)
    if found is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UsageError(
            f"Topic {name!r} does not exist on this cluster.",
            "Create it first, or leave --topic out: kipctl then makes and removes its own.",
        )
    if found.error_code:
        raise RefusedError(f"Topic {name!r}: {error_text(found.error_code)}.")
    return Topic(name, found.topic_id), len(found.partitions)
