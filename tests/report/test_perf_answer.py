"""The first lines of a run with moved leaders: what they cost, and whose client it was."""

from typing import Any

import pytest

from kipctl.report.perf_tables import moves_answer
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
