"""What the user may ask to be done during a run, and what the demo says of its numbers."""

from dataclasses import replace

import numpy as np
import pytest

from kipctl.errors import UsageError
from kipctl.experiments.actions import Action, ActionKind, parse_action
from kipctl.experiments.demo import Arm, findings
from kipctl.measure.distribution import Distribution
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.trace.codes import PHASES


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("rotate", Action(ActionKind.ROTATE)),
        ("elect", Action(ActionKind.ELECT)),
        ("reassign", Action(ActionKind.REASSIGN)),
        ("restart:2", Action(ActionKind.RESTART, 2)),
    ],
)
def test_actions_are_named_as_they_are_shown(text: str, action: Action) -> None:
    assert parse_action(text) == action
    assert str(action) == text


@pytest.mark.parametrize("text", ["", "rotat", "rotate:1", "restart", "restart:", "restart:a"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no action"):
        parse_action(text)


def arm(
    discovery: LeaderDiscovery, waits_ms: tuple[float, ...], p999_ms: float, brokers_ms: float
) -> Arm:
    phases = dict.fromkeys(PHASES, 0.0)
    phases |= {"backoff": waits_ms[0], "detect": brokers_ms}
    return Arm(
        "1",
        discovery,
        Distribution(np.array([int(p999_ms * 1000)]), np.array([1000])),
        (p999_ms,) * len(waits_ms),
        waits_ms,
        (20,) * len(waits_ms),
        {
            "batches": 1,
            "moves": {"met": 20, "wait_ms": {"p50": waits_ms[0]}},
            "phases_ms": {name: {"sum": value} for name, value in phases.items()},
        },
        {},
        0,
    )


def test_findings_lead_with_the_wait_for_a_moved_leader_and_its_verdict() -> None:
    hinted = arm(LeaderDiscovery.KIP951, (0.1, 0.2, 0.1), p999_ms=42, brokers_ms=9.9)
    old = arm(LeaderDiscovery.BASELINE, (100.0, 101.0, 100.5), p999_ms=150, brokers_ms=10.0)
    waited, verdict, few_runs, whose, records = findings([hinted, old])
    assert waited == (
        "For a moved leader the client itself waited (median of a run, geometric mean of the "
        "runs): kip951 0.1 ms, baseline 100.5 ms."
    )
    assert verdict == "kip951 beside baseline: different, 99.9 % less (p below 0.0001)."
    assert few_runs.startswith("Of 3 runs a side all may have had a stall")
    assert whose == (
        "With hints, the redirected batches' time was 99 % the brokers' own, 1 % the client's, "
        "0 % spent in queues behind them: the largest part was the brokers' own."
    )
    assert records.endswith("is not compared: kip951 42 ms, baseline 150 ms.")


def test_what_is_said_is_what_is_compared_and_more_is_not_called_less() -> None:
    """Of all moves together the median was another: run by run it was less, or more."""
    hinted = arm(LeaderDiscovery.KIP951, (160.0, 120.0, 115.0), p999_ms=42, brokers_ms=400.0)
    old = arm(LeaderDiscovery.BASELINE, (100.0, 101.0, 100.5), p999_ms=42, brokers_ms=10.0)
    hinted.redirects["moves"]["wait_ms"]["p50"] = 99.0
    waited, verdict, *_ = findings([hinted, old])
    assert waited.endswith(": kip951 130.2 ms, baseline 100.5 ms.")
    assert verdict.startswith("kip951 beside baseline: not different, 29.6 % more (p 0.06")


def test_findings_say_when_a_difference_cannot_be_told() -> None:
    hinted = arm(LeaderDiscovery.KIP951, (90.0, 2.0), p999_ms=145, brokers_ms=10.0)
    old = arm(LeaderDiscovery.BASELINE, (100.0, 101.0), p999_ms=150, brokers_ms=10.0)
    hinted = replace(hinted, moves_met=(37, 3))
    said = list(findings([hinted, old]))
    assert said[1].startswith("kip951 beside baseline: cannot be told: two runs on a side")
    assert said.pop(2).startswith("Few moved leaders were met in a run (kip951 37 | 3; 20 ")
    assert said[2].endswith("the largest part was the client's.")
