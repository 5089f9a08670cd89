"""Elections without a cluster: how outcomes and partitions are read."""

import pytest

from kipctl.changes.elections.request import ElectionResult, Outcome
from kipctl.changes.execution.plan_result import require_all_done
from kipctl.cluster.snapshot import PartitionId, parse_partition
from kipctl.errors import PartlyDoneError, RefusedError, UsageError
from kipctl.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.NONE, Outcome.ELECTED),
        (ErrorCode.ELECTION_NOT_NEEDED, Outcome.NOT_NEEDED),
        (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, Outcome.FAILED),
        (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, Outcome.FAILED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Outcome.GONE),
        (ErrorCode.REQUEST_TIMED_OUT, Outcome.UNKNOWN),
        (9999, Outcome.FAILED),
    ],
)
def test_only_real_errors_are_failures(code: int, outcome: Outcome) -> None:
    assert ElectionResult(PartitionId("t", 0), code).outcome is outcome


@pytest.mark.parametrize(
    ("text", "partition_id"),
    [
        ("orders:3", ("orders", 3)),
        ("orders-3", ("orders", 3)),
        ("a.b-c_d:0", ("a.b-c_d", 0)),
        ("a.b-c_d-0", ("a.b-c_d", 0)),
        ("odd:name:12", ("odd:name", 12)),
    ],
)
def test_how_a_partition_is_named(text: str, partition_id: tuple[str, int]) -> None:
    assert parse_partition(text) == partition_id


@pytest.mark.parametrize("text", ["", "orders", "orders:", ":3", "orders:x", "orders:-1", "o:1.5"])
def test_other_texts_are_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="is not a partition"):
        parse_partition(text)


def test_failures_are_counted_against_what_is_done() -> None:
    failed = [
        ElectionResult(PartitionId("t", n), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is down")
        for n in (4, 5)
    ]
    require_all_done([], 0, "")
    with pytest.raises(PartlyDoneError) as partly:
        require_all_done(failed, 3, "Look.")
    assert partly.value.what == (
        "3 partitions are done, 2 are not:"
        " t-4: PREFERRED_LEADER_NOT_AVAILABLE (it is down), and 1 more."
    )
    with pytest.raises(RefusedError, match="No partition was done"):
        require_all_done(failed, 0, "Look.")
