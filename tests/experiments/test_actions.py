"""What the user may ask to be done during a run, and what the demo says of its numbers."""

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
    discovery: LeaderDiscovery, p999_ms: tuple[float, ...], client_ms: float, brokers_ms: float
) -> Arm:
    phases = dict.fromkeys(PHASES, 0.0)
    phases |= {"backoff": client_ms, "detect": brokers_ms}
    return Arm(
        "1",
        discovery,
        Distribution(np.array([int(max(p999_ms) * 1000)]), np.array([1000])),
        p999_ms,
        {
            "batches": 1,
            "client_share_ms": {"p50": client_ms},
            "phases_ms": {name: {"sum": value} for name, value in phases.items()},
        },
        {},
        0,
    )


def test_findings_say_whose_time_it_was_and_whether_the_order_is_sure() -> None:
    hinted = arm(LeaderDiscovery.KIP951, (40.0, 42.0), client_ms=0.1, brokers_ms=9.9)
    old = arm(LeaderDiscovery.BASELINE, (140.0, 150.0), client_ms=100.0, brokers_ms=10.0)
    assert findings([hinted, old]) == (
        "From a leader's refusal to the retry, the client itself took (median): "
        "kip951 0.1 ms, baseline 100.0 ms.",
        "With hints, the redirected batches' time was 99 % the brokers' own, 1 % the client's, "
        "0 % spent in queues behind them: most of it was the brokers' own.",
        "p99.9 of all records: kip951 42 ms < baseline 150 ms; in every run in this order.",
    )


def test_findings_do_not_call_an_order_sure_when_runs_overlap() -> None:
    hinted = arm(LeaderDiscovery.KIP951, (40.0, 145.0), client_ms=90.0, brokers_ms=10.0)
    old = arm(LeaderDiscovery.BASELINE, (140.0, 150.0), client_ms=100.0, brokers_ms=10.0)
    said = findings([hinted, old])
    assert said[1].endswith("most of it was the client's.")
    assert said[2].endswith("but single runs overlap: not a sure order.")
