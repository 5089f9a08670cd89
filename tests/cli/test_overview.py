"""`kipctl` alone: what it says of each state of the world, by table."""

from pathlib import Path

import pytest
from in_process import kipctl

from kipctl.cli.overview import Health, Overview, in_one_line, next_commands, sentences
from kipctl.errors import ExitStatus

WELL = Health(3, 2, 24, 0, 0, 0, 0)
UNWELL = Health(3, 2, 24, 1, 4, 5, 6)


@pytest.mark.parametrize(
    ("seen", "said", "first"),
    [
        (Overview("", "No lab runs.", None, ""), ["No lab runs."], "kipctl demo"),
        (
            Overview("a:1", "Nobody answers.", None, ""),
            ["Cluster a:1: Nobody answers."],
            "kipctl clusters test --help",
        ),
        (
            Overview("a:1", "", WELL, "before"),
            [
                "Cluster a:1: 3 brokers, 2 topics, 24 partitions.",
                "Every partition is as it should be.",
                "Last recorded run: before.",
            ],
            "kipctl inspect brokers",
        ),
        (
            Overview("a:1", "", UNWELL, ""),
            [
                "Cluster a:1: 3 brokers, 2 topics, 24 partitions.",
                "Of them 1 have no leader, 4 are under-replicated, 6 are being reassigned, 5 are"
                " not led by their preferred replica.",
            ],
            "kipctl inspect brokers",
        ),
        (
            Overview("a:1", "", Health(3, 2, 24, 0, 0, 5, None), ""),
            [
                "Cluster a:1: 3 brokers, 2 topics, 24 partitions.",
                "Of them 5 are not led by their preferred replica.",
            ],
            "kipctl elect preferred --all --dry-run",
        ),
    ],
)
def test_a_state_and_what_to_type_next(seen: Overview, said: list[str], first: str) -> None:
    assert list(sentences(seen)) == said
    commands = [command for command, _ in next_commands(seen)]
    assert commands[0] == first
    assert len(set(commands)) == len(commands) <= 3


def test_what_has_not_ended_is_said_and_gone_on_with_first() -> None:
    seen = Overview(
        "a:1",
        "",
        WELL,
        "before",
        "7 records read",
        "was stopped before its end: entry 1",
        "1 of 3 brokers",
    )
    assert list(sentences(seen)) == [
        "Cluster a:1: 3 brokers, 2 topics, 24 partitions.",
        "A rolling restart has not ended: 1 of 3 brokers.",
        "A change was stopped before its end: entry 1.",
        "Last recorded run: before: 7 records read.",
    ]
    assert [command for command, _ in next_commands(seen)] == [
        "kipctl roll --resume",
        "kipctl reassign --resume --dry-run",
        "kipctl runs show before",
    ]


def test_a_change_that_has_not_ended_is_gone_on_with_or_undone() -> None:
    seen = Overview("a:1", "", WELL, "", entry="was stopped before its end: entry 1")
    assert [command for command, _ in next_commands(seen)][:2] == [
        "kipctl reassign --resume --dry-run",
        "kipctl reassign --rollback",
    ]


def test_what_another_kipctl_is_at_is_followed_and_not_resumed() -> None:
    seen = Overview("a:1", "", WELL, "", roll="1 of 3 brokers", changed_by="kipctl roll, process 7")
    assert list(sentences(seen))[1:] == [
        "Changing it now: kipctl roll, process 7.",
        "A rolling restart has not ended: 1 of 3 brokers.",
    ]
    assert [command for command, _ in next_commands(seen)][:2] == [
        "kipctl reassign --history",
        "kipctl reassign --pause",
    ]


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


def test_the_last_run_is_among_what_to_type_next() -> None:
    commands = [command for command, _ in next_commands(Overview("a:1", "", WELL, "before"))]
    assert "kipctl runs show before" in commands


def test_a_cluster_that_does_not_answer_ends_with_its_status(tmp_path: Path) -> None:
    folders = dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "KIPCTL_RUNS"), str(tmp_path))
    said = kipctl(KIPCTL_BOOTSTRAP_SERVER="127.0.0.1:1", **folders)
    assert said.status == ExitStatus.UNREACHABLE == 3
    assert said.out.startswith("Cluster 127.0.0.1:1: ")
    assert "kipctl clusters test --help" in said.out
