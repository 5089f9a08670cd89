"""What a principal lacks for each command, and what it may not be shown: by table."""

from typing import Any, cast

import pytest

from kipctl.cluster.acls import (
    NEEDED,
    hidden_topics_warning,
    no_topics_warning,
    require_to_move_leaders,
    require_topics_shown,
    rights,
)
from kipctl.errors import RefusedError
from kipctl.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

CODES = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
}
"""Of Kafka's `AclOperation`."""
ALL = tuple(CODES)
NOT_TOLD = -(2**31)
ALICE = Security(sasl=Sasl("PLAIN", "alice", "secret"))


class Authorizer:
    """A cluster that lets alice do this on itself, and that on topics whose names begin so.

    A topic that she may not Describe is hidden, whether it exists or not, as in `KafkaApis`.
    """

    def __init__(
        self,
        on_cluster: tuple[str, ...] = (),
        on_topics: dict[str, tuple[str, ...]] | None = None,
        security: Security = ALICE,
    ) -> None:
        self.on_cluster, self.on_topics = on_cluster, on_topics or {}
        self.access = Access("b:1", security)
        self.requests = 0

    def any_broker(self) -> "Authorizer":
        return self

    def request(self, request: Any) -> Any:
        self.requests += 1
        if isinstance(request, DescribeClusterRequest):
            assert request.include_cluster_authorized_operations
            return DescribeClusterResponse(cluster_authorized_operations=bits(self.on_cluster))
        assert isinstance(request, MetadataRequest)
        assert not request.allow_auto_topic_creation
        return MetadataResponse(
            topics=tuple(self.shown(t.name or "") for t in request.topics or ())
        )

    def shown(self, name: str) -> MetadataResponseTopic:
        granted = [ops for prefix, ops in self.on_topics.items() if name.startswith(prefix)]
        held = tuple(operation for operations in granted for operation in operations)
        if not {"Describe", "Read", "Write", "Delete", "Alter"} & {*held}:
            code, told = ErrorCode.TOPIC_AUTHORIZATION_FAILED, NOT_TOLD
        else:
            code = ErrorCode.NONE if name == "orders" else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            told = bits((*held, "Describe"))
        return MetadataResponseTopic(name=name, error_code=code, topic_authorized_operations=told)


def bits(operations: tuple[str, ...]) -> int:
    return sum(1 << CODES[operation] for operation in set(operations))


def lacking(cluster: Authorizer, *topics: str) -> dict[str, tuple[list[str], list[str]]]:
    """By command: what is missing, and what is not known."""
    return {
        command.command: ([*map(str, command.missing)], [*map(str, command.not_known)])
        for command in rights(cast(Cluster, cluster), topics)
    }


def test_who_may_do_everything_lacks_nothing() -> None:
    by_command = lacking(Authorizer(ALL, {"": ALL}), "orders")
    assert by_command == dict.fromkeys(NEEDED, ([], []))


def test_rights_on_named_topics_are_not_those_on_kipctls_own() -> None:
    by_command = lacking(Authorizer((), {"orders": ALL}), "orders")
    assert by_command["perf produce --topic"] == ([], [])
    own = [f"{operation} on Topic kipctl-perf-*" for operation in ("Write", "Read", "Delete")]
    assert by_command["perf without --topic"] == (own, ["Create on Topic kipctl-perf-*"])


def test_those_on_kipctls_own_are_known_without_a_topic_that_is_named() -> None:
    granted = {"kipctl-perf": ("Create", "Write", "Read"), "kipctl-metadata": ("Create", "Delete")}
    by_command = lacking(Authorizer(("Describe", "Alter"), granted))
    assert by_command["perf without --topic"] == (["Delete on Topic kipctl-perf-*"], [])
    assert by_command["perf metadata"] == (["Write on Topic kipctl-metadata-*"], [])
    assert by_command["inspect metadata --measure-convergence"] == ([], [])
    assert by_command["perf produce --topic"] == ([], ["Write on Topic"])


def test_who_may_create_on_the_cluster_may_make_topics_of_any_name() -> None:
    by_command = lacking(Authorizer(("Create",), {"kipctl-perf": ("Write", "Read", "Delete")}))
    assert by_command["perf without --topic"] == ([], [])


def test_a_tap_needs_nothing_of_its_own() -> None:
    assert NEEDED["tap"] == ()
    assert lacking(Authorizer())["tap"] == ([], [])


EMPTY = "No topic is shown: there is none, or none that User:alice may Describe."
SOME = "Topics that User:alice may not Describe are not among these."


@pytest.mark.parametrize(
    ("on_cluster", "topics", "named", "said"),
    [
        ((), (), (), EMPTY),
        (ALL, (), (), EMPTY),
        (("Describe", "DescribeConfigs"), ("orders",), (), SOME),
        (("Describe",), ("orders",), ("ord*",), SOME),
        (("Describe",), ("orders",), ("orders", "ord*"), SOME),
        (("Describe",), ("orders",), ("orders",), ""),
        (ALL, ("orders",), (), ""),
    ],
)
def test_what_may_be_hidden_is_said(
    on_cluster: tuple[str, ...], topics: tuple[str, ...], named: tuple[str, ...], said: str
) -> None:
    cluster = cast(Cluster, Authorizer(on_cluster))
    assert hidden_topics_warning(cluster, topics, named) == said


@pytest.mark.parametrize(
    ("on_cluster", "topics", "said"),
    [((), (), EMPTY), (("Describe",), (), EMPTY), (ALL, (), ""), ((), ("orders",), "")],
)
def test_whether_no_topic_is_shown_for_want_of_a_right(
    on_cluster: tuple[str, ...], topics: tuple[str, ...], said: str
) -> None:
    assert no_topics_warning(cast(Cluster, Authorizer(on_cluster)), topics) == said
    open_to_all = Authorizer(on_cluster, security=Security())
    assert no_topics_warning(cast(Cluster, open_to_all), topics) == ""


def test_a_roll_needs_to_know_min_insync_replicas() -> None:
    known = {"orders": ("Describe",)}
    missing, _ = lacking(Authorizer(("Describe", "Alter"), known), "orders")["roll"]
    assert missing == ["DescribeConfigs on Topic"]


def test_nothing_is_said_or_asked_where_nobody_logs_in() -> None:
    cluster = Authorizer(security=Security())
    assert hidden_topics_warning(cast(Cluster, cluster), ()) == ""
    assert cluster.requests == 0


def test_a_cluster_that_does_not_tell_what_is_allowed_may_hide_nothing_else() -> None:
    class Silent(Authorizer):
        def request(self, request: Any) -> Any:
            return DescribeClusterResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    assert hidden_topics_warning(cast(Cluster, Silent()), ("orders",)) == ""


def test_who_is_shown_no_topic_is_refused_with_what_grants_it() -> None:
    require_topics_shown(cast(Cluster, Authorizer(ALL)), ())
    require_topics_shown(cast(Cluster, Authorizer()), ("orders",))
    with pytest.raises(RefusedError, match="none that User:alice may Describe") as error:
        require_topics_shown(cast(Cluster, Authorizer()), ())
    assert error.value.next_step.startswith("Grant it: kafka-acls --bootstrap-server b:1 ")
    assert error.value.next_step.endswith("--operation Describe --topic '*'")


@pytest.mark.parametrize(
    ("on_cluster", "operations"),
    [((), ["Describe", "Alter"]), (("Describe",), ["Alter"]), (("Describe", "Alter"), [])],
)
def test_the_rights_to_move_leaders_are_looked_at_before(
    on_cluster: tuple[str, ...], operations: list[str]
) -> None:
    cluster = cast(Cluster, Authorizer(on_cluster))
    if not operations:
        require_to_move_leaders(cluster)
        return
    with pytest.raises(RefusedError, match=f"no right to {' and '.join(operations)} on") as error:
        require_to_move_leaders(cluster)
    granted = " ".join(f"--operation {operation}" for operation in operations)
    assert error.value.next_step.endswith(f"--allow-principal User:alice {granted} --cluster")
