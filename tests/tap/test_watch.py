"""What spoils what the tap sees: a busy machine, and a tap that is late itself."""

import pytest

from kipctl.client_behaviour.behaviour import Seen
from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import Outcome
from kipctl.load.tap import described
from kipctl.machine import CpuTimes
from kipctl.tap import watch as watch_module
from kipctl.tap.clients import Counts, Identity
from kipctl.tap.process import ClientSeen, TapOutcome
from kipctl.tap.times import Times
from kipctl.tap.watch import Watch


@pytest.mark.parametrize(
    ("busy_percent", "late_us", "reaction_us", "doubts"),
    [
        (50, 100, 100_000, []),
        (95, 15_000, 100_000, [Doubt.BUSY]),
        # Nobody waited that long for a turn.
        (95, 100, 100_000, []),
        (50, 6_000, 2_000, [Doubt.TAP]),
        # So late it may be, and the client took ten times as long.
        (50, 6_000, 100_000, []),
        (95, 60_000, 100_000, [Doubt.BUSY, Doubt.TAP]),
    ],
)
def test_what_a_machine_makes_of_a_reaction(
    monkeypatch: pytest.MonkeyPatch,
    busy_percent: int,
    late_us: int,
    reaction_us: int,
    doubts: list[Doubt],
) -> None:
    ticks = iter(CpuTimes(busy_percent * at, 100 * at) for at in range(10))
    monkeypatch.setattr(watch_module, "cpu_times", lambda: next(ticks))
    watch = Watch()
    assert watch.doubts(reaction_us) == []
    for late in (0, late_us, 0):
        watch.look(late)
    assert watch.doubts(reaction_us) == doubts
    assert watch.most_busy == busy_percent / 100


def test_times_are_counted_to_three_percent() -> None:
    times = Times()
    assert times.summary == (0, 0, 0, 0)
    for us in range(1, 100_001):
        times.add(us)
    count, p50, p99, most = times.summary
    assert (count, most) == (100_000, 100_000)
    assert p50 == pytest.approx(50_000, rel=0.04)
    assert p99 == pytest.approx(99_000, rel=0.04)


def outcome(**more: object) -> TapOutcome:
    seen = Seen(
        leader_errors=12,
        hints=12,
        outcomes={Outcome.FOLLOWED: 12},
        reaction_p50_us=132_900,
        doubts=(Doubt.BUSY, Doubt.TAP),
    )
    client = ClientSeen(Identity("shop", "kgo", "v1.21.6", "10.0.0.1"), Counts(), 1, seen, moves=12)
    begun = (0, 1_000_000, 0, "", (client,), {}, (), 0, 0.0, 0, {})
    return TapOutcome(*begun, **more)  # type: ignore[arg-type]


def test_the_doubt_stands_in_the_document_and_in_the_verdict() -> None:
    document = described(outcome(busy=0.5, most_busy=0.97, late_us=7_000), {})
    (client,) = document["clients"]
    assert client["verdict"]["behaviour"] == "unknown"
    assert client["verdict"]["why"] == "the machine was busy"
    assert client["verdict"]["doubts"] == ["the machine was busy", "the tap itself was late"]
    assert [doubt.rpartition(" ")[2] for doubt in document["doubts"]] == [
        "machine-busy",
        "client-late",
        "few-moves",
    ]
    assert "97 % busy" in document["doubts"][0]
    assert document["machine"] == {"busy_percent": 50.0, "tap_late_ms": 7.0}
