"""`kipctl` alone: what it says of each state of the world, by table."""

from dataclasses import replace
from pathlib import Path

import pytest
from in_process import kipctl

from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.errors import ExitStatus
from kipctl.report.overview import (
    Health,
    Overview,
    health_of,
    in_one_line,
    next_commands,
    sentences,
)

WELL = Health(3, 2, 24, 0, 0, 0, 0)
UNWELL = Health(3, 2, 24, 1, 4, 5, 6)


LOOK = "Cluster a:1: 3 brokers, 2 topics, 24 partitions."
ROLLING = "A rolling restart has not ended: 1 of 3 brokers."
CUT = "was stopped before its end: entry 1"
DRY = "changes resume --dry-run"
MEASURE = "perf produce --during rotate"


@pytest.mark.parametrize(
    ("seen", "said", "commands"),
    [
        (
            Overview("", "No lab runs.", None, ""),
            ["No lab runs."],
            ["demo", "lab up", "clusters add --help"],
        ),
        (
            Overview("a:1", "Nobody answers.", None, ""),
            ["Cluster a:1: Nobody answers."],
            ["clusters test --help", "lab status"],
        ),
        (
            Overview("a:1", "", WELL, "before"),
            [LOOK, "Every partition is as it should be.", "Last recorded run: before."],
            ["inspect brokers", MEASURE, "runs show before"],
        ),
        (
            Overview("a:1", "", UNWELL, ""),
            [
                LOOK,
                "Of them 1 has no leader, 4 are under-replicated, 6 are being reassigned, 5 are"
                " not led by the preferred replica.",
            ],
            ["inspect brokers", "wait --until in-sync", "reassign --list"],
        ),
        (
            Overview("a:1", "", Health(3, 2, 24, 0, 0, 5, None), ""),
            [LOOK, "Of them 5 are not led by the preferred replica."],
            ["elect preferred --all --dry-run", "inspect brokers", MEASURE],
        ),
        (
            Overview("a:1", "", replace(WELL, away=(2, 4)), ""),
            [LOOK, "Brokers 2, 4 are away."],
            ["inspect brokers", MEASURE, "reassign --rotate --all-topics --dry-run"],
        ),
        # What has not ended is said, and gone on with first, or undone.
        (
            Overview("a:1", "", WELL, "before", "7 records read", CUT, "1 of 3 brokers"),
            [LOOK, ROLLING, f"A change {CUT}.", "Last recorded run: before: 7 records read."],
            ["roll --resume", DRY, "runs show before"],
        ),
        (
            Overview("a:1", "", WELL, "", entry=CUT),
            [LOOK, f"A change {CUT}."],
            [DRY, "changes list", "inspect brokers"],
        ),
        (
            Overview(
                "a:1",
                "",
                Health(3, 2, 24, 0, 0, 0, 6),
                "",
                changed_by="reassign, process 7",
                may_be_paused=True,
            ),
            [LOOK, "Of them 6 are being reassigned.", "Changing it now: reassign, process 7."],
            ["changes list", "changes pause", "changes cancel"],
        ),
        # What another kipctl is at is followed, and not resumed.
        (
            Overview(
                "a:1",
                "",
                WELL,
                "",
                roll="1 of 3 brokers",
                changed_by="roll, process 7",
                may_be_paused=True,
            ),
            [LOOK, "Changing it now: roll, process 7.", ROLLING],
            ["changes list", "changes pause", "inspect brokers"],
        ),
    ],
)
def test_a_state_and_what_to_type_next(
    seen: Overview, said: list[str], commands: list[str]
) -> None:
    assert list(sentences(seen)) == said
    assert [str(command) for command, _ in next_commands(seen)] == [f"kipctl {c}" for c in commands]


@pytest.mark.parametrize(
    ("busy", "isr", "under_replicated", "reassigning"),
    [
        (None, (1, 2), 1, None),
        ((), (1, 2), 1, 0),
        ((3,), (1, 2), 0, 1),  # broker 3 is being added: nothing is missed there yet
        ((3,), (1,), 1, 1),
        ((3,), (1, 3), 1, 1),
        ((), (1, 2, 3), 0, 0),
    ],
)
def test_a_replica_that_is_being_added_is_not_missed(
    busy: tuple[int, ...] | None, isr: tuple[int, ...], under_replicated: int, reassigning: int
) -> None:
    orders = PartitionId("orders", 0)
    partition = Partition(orders, (1, 2, 3), isr, leader=1, leader_epoch=0)
    brokers = tuple(Broker(id, "host", 9092, None) for id in (1, 2, 3))
    moving = None if busy is None else [Reassignment(orders, (1, 2, 3), busy, ())] if busy else []
    seen = health_of(Snapshot("x", brokers, (partition,)), moving)
    assert (seen.under_replicated, seen.reassigning) == (under_replicated, reassigning)


MOVES = {"met": 63, "wait_ms": {"p50": 0.3, "p99": 1.24, "max": 2.0}}


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        ({}, ""),
        ({"records": 1000}, "1,000 records acknowledged"),
        (
            {
                "records": {"acknowledged": 30_000, "failed": 2},
                "records_per_second": 999.6,
                "redirects": {"moves": MOVES},
                "latency_ms": {"p99": 4.0},
            },
            "30,000 records acknowledged, 2 records failed, 1,000 records/s, 63 moved leaders met,"
            " p50 0.3 ms and p99 1.2 ms waited for each",
        ),
        (
            {"records": {"read": 5}, "latency_ms": {"p99": 4.0}, "redirects": {"moves": None}},
            "5 records read, latency p99 4.0 ms",
        ),
    ],
)
def test_a_run_in_one_line(summary: dict[str, object], line: str) -> None:
    assert in_one_line(summary) == line


def test_a_cluster_that_does_not_answer_ends_with_its_status(tmp_path: Path) -> None:
    folders = dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "KIPCTL_RUNS"), str(tmp_path))
    said = kipctl(KIPCTL_BOOTSTRAP_SERVER="127.0.0.1:1", **folders)
    assert said.status == ExitStatus.UNREACHABLE == 3
    assert said.out.startswith("Cluster 127.0.0.1:1: ")
    assert "kipctl clusters test --help" in said.out
