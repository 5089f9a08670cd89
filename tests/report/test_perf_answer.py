"""The first lines of a run with moved leaders: what they cost, and whose client it was."""

from typing import Any

import pytest

from kipctl.report.perf_tables import longest, moves_answer
from kipctl.trace.codes import PHASES


def document(batches: int, **spent_ms: float) -> dict[str, Any]:
    phases = {phase: {"sum": spent_ms.get(phase, 0.0)} for phase in PHASES}
    own_ms = phases["backoff"]["sum"] + phases["metadata"]["sum"]
    return {
        "leader_discovery": "kip951",
        "actions": [],
        "redirects": {
            "batches": batches,
            "phases_ms": phases,
            "client_share_ms": {"sum": own_ms},
            "moves": {"met": batches, "wait_ms": {"p50": 0.3, "p99": 0.6, "max": 0.6}},
        },
    }


@pytest.mark.parametrize(
    ("seen", "others"),
    [
        (
            document(24, queued=3000, detect=4000, acknowledge=2900, metadata=90, backoff=10),
            (
                "The 24 batches that met them took 10.0 s in all: 69.0 % at the brokers, 30.0 %"
                " queued, 1.0 % the client's own wait.",
                "This was kipctl's own client, leader discovery kip951. For yours: kipctl tap.",
            ),
        ),
        (document(0), ()),
    ],
)
def test_what_moved_leaders_cost_stands_under_the_wait(
    seen: dict[str, Any], others: tuple[str, ...]
) -> None:
    [answer] = moves_answer(seen)
    assert answer.first.startswith(f"Moved leaders: {seen['redirects']['batches']} were met")
    assert answer.others == others


def test_an_older_run_that_does_not_say_is_passed_over() -> None:
    assert moves_answer({"redirects": {"moves": None}, "actions": []}) == ()


def test_it_is_said_when_the_worst_moment_was() -> None:
    worst = {
        "longest_ms": 1215.34,
        "intended_ms": 12_340.0,
        "intended": "2026-11-28T14:03:12.340000+00:00",
        "partition": 2,
    }
    assert [*longest({"longest_record": worst})] == [
        "The longest took 1,215.3 ms: due 14:03:12 UTC, 12.3 s after the start, to partition 2."
    ]
    assert not [*longest({"longest_record": None}), *longest({})]
