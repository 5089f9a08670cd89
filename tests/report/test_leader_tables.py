"""What is said of leaders that moved."""

import pytest

from kipctl.changes.elections.batches import ElectionOutcome
from kipctl.changes.elections.request import ElectionResult
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.plans.plan import SkippedPartition
from kipctl.changes.proposal import ElectionProposal
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.own_topic_names import OWN_ONE, new_name
from kipctl.protocol.error_codes import ErrorCode
from kipctl.report.election_tables import not_preferred_report
from kipctl.report.leader_tables import moved_report
from kipctl.report.led_partition_tables import leaders_report

OWN = new_name(OWN_ONE)
ELECTED, IN_PLACE = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ({"orders": [ELECTED, ELECTED]}, "2 leaders moved"),
        (
            {"orders": [ELECTED, ELECTED], OWN: [ELECTED] * 3},
            "2 leaders moved (and 3 of kipctl's own topic)",
        ),
        (
            {"orders": [ELECTED, IN_PLACE], OWN: [ELECTED, IN_PLACE, IN_PLACE]},
            "1 leader moved (and 1 of kipctl's own topic), 1 was in place",
        ),
    ],
)
def test_the_leaders_of_the_topic_that_measures_are_counted_apart(
    outcomes: dict[str, list[ErrorCode]], said: str
) -> None:
    results = tuple(
        ElectionResult(PartitionId(topic, partition), code)
        for topic, codes in outcomes.items()
        for partition, code in enumerate(codes)
    )
    held = ElectionOutcome(results, 0, 1000, {1: 5000}, watched=(1,))
    nothing = Snapshot("id", (), ())
    report = moved_report("reassign", PlanResult(election=held), nothing, nothing)
    [answer] = report.opening
    assert answer.first == f"{said}; every broker knew 5 ms after the election was called."
    assert report.document["counts"] == {"done": len(results), "failed": 0}


@pytest.mark.parametrize(
    ("leaders", "said"),
    [
        ((1, 2), "All 2 partitions are led by their preferred replica. The brokers lead evenly."),
        (
            (1, 1, 2),
            "All 3 partitions are led by their preferred replica. The broker that leads most leads"
            " 1.33 times the mean.",
        ),
    ],
)
def test_how_evenly_brokers_lead(leaders: tuple[int, ...], said: str) -> None:
    partitions = tuple(
        Partition(PartitionId("orders", number), (leader,), (leader,), leader, 0)
        for number, leader in enumerate(leaders)
    )
    brokers = tuple(Broker(number, "localhost", number, None) for number in (1, 2))
    [answer] = leaders_report(Snapshot("id", brokers, partitions)).opening
    assert answer.first == said


def test_a_broker_that_is_away_has_its_row_and_what_one_has_is_counted_in_all() -> None:
    held = [((1, 2), 1), ((2, 1), 1), ((3, 1), 3)]
    partitions = tuple(
        Partition(PartitionId("orders", number), replicas, (leader,), leader, 0)
        for number, (replicas, leader) in enumerate(held)
    )
    brokers = tuple(Broker(number, "localhost", number, "a") for number in (1, 3))
    every = leaders_report(Snapshot("id", brokers, partitions))
    assert every.opening[0].first.startswith("Broker 2 is away. 1 of 3 partitions ")
    counts = [("broker", "alive", "leader_count", "preferred", "replica_count", "not_in_sync")]
    counts += [(1, True, 2, 1, 3, 1), (2, False, 0, 1, 2, 2), (3, True, 1, 1, 1, 0)]
    keys, *rows = counts
    assert [tuple(row[key] for key in keys) for row in every.document["brokers"]] == rows
    of_3 = leaders_report(Snapshot("id", brokers, partitions), (), [3])
    assert of_3.opening[0].first == "All 1 partition is led by their preferred replica."
    assert [tuple(row[key] for key in keys) for row in of_3.document["brokers"]] == rows[2:]
    assert [row["partition"] for row in of_3.document["partitions"]] == [2]


@pytest.mark.parametrize(
    ("chosen", "busy", "said"),
    [
        ([1, 0], [0], "Nothing to do: preferred replicas lead all of the other 1 partition."),
        ([0], [0], "Nothing to do beside what is being reassigned."),
        ([1], [], "Nothing to do: preferred replicas lead all of 1 partition."),
        ([], [], "Nothing to do: none of these brokers is the preferred replica of a partition."),
    ],
)
def test_an_election_that_changes_nothing(chosen: list[int], busy: list[int], said: str) -> None:
    """Partition 0 is led by another than its preferred replica."""
    ids = [PartitionId("orders", number) for number in (0, 1)]
    every = [Partition(id, (1, 2), (1, 2), 2 - id.partition, 0) for id in ids]
    seen = Snapshot("id", (), tuple(every[number] for number in chosen))
    skipped = tuple(SkippedPartition(ids[number], "busy") for number in busy)
    [answer] = not_preferred_report(ElectionProposal(seen, skipped)).opening
    assert answer.first.startswith(said)
