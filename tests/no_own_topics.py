"""Whether topics of kipctl's own runs are gone from a cluster. Used by tests."""

from kipctl.process import wait_until
from kipctl.protocol.metadata import metadata_request
from kipctl.transport.request import Cluster

_TIMEOUT_S = 60.0


def await_no_own_topics(cluster: Cluster) -> None:
    """Wait until no broker shows any: the next test may ask another one than this test did."""

    def shown() -> set[str]:
        cluster.metadata(())
        answers = [cluster.broker(id).request(metadata_request(None)) for id in cluster.nodes]
        names = {topic.name or "" for answer in answers for topic in answer.topics}
        return {name for name in names if name.startswith("kipctl-")}

    assert wait_until(lambda: not shown(), _TIMEOUT_S), shown()
