"""Guards: what their texts mean, and when they pause, go on and give up. By table."""

import pytest
from plan_worlds import cluster_of

from kipctl.errors import UsageError
from kipctl.guard.conditions import Condition, Guard, Kind, Verdict, count_partitions, parse_guard

GO, PAUSE, GIVE_UP = Verdict.GO, Verdict.PAUSE, Verdict.GIVE_UP


TOPIC_AND_LE = (("topic", "x"), ("le", "1"))


@pytest.mark.parametrize(
    ("text", "kind", "sign", "limit", "further"),
    [
        ("urp > 10", Kind.UNDER_REPLICATED, ">", 10, {}),
        ("under-min-isr>0", Kind.UNDER_MIN_ISR, ">", 0, {}),
        ("at-min-isr > 0", Kind.AT_MIN_ISR, ">", 0, {}),
        ("offline >= 1 for 5s", Kind.OFFLINE, ">=", 1, {"held_s": 5}),
        ("  urp  >  1 ", Kind.UNDER_REPLICATED, ">", 1, {}),
        ("metric idle < 0.3 for 2m", Kind.METRIC, "<", 0.3, {"held_s": 120, "name": "idle"}),
        (
            *('metric a:b{topic="x",le="1"} > 1e3', Kind.METRIC, ">", 1000),
            {"name": "a:b", "labels": TOPIC_AND_LE},
        ),
        ("p99 > 50ms for 10s", Kind.LATENCY, ">", 0.05, {"held_s": 10, "percentile": 99}),
        ("p99 > 1.5x", Kind.LATENCY, ">", 0, {"percentile": 99, "times": 1.5}),
        (
            *("p99 > 2x and > 10ms for 5s", Kind.LATENCY, ">", 0.01),
            {"percentile": 99, "times": 2, "held_s": 5},
        ),
        ("p99.9 > 1s", Kind.LATENCY, ">", 1, {"percentile": 99.9}),
        ("moved-wait p50 > 20ms", Kind.MOVED_WAIT, ">", 0.02, {"percentile": 50}),
    ],
)
def test_what_a_guard_says(
    text: str, kind: Kind, sign: str, limit: float, further: dict[str, object]
) -> None:
    plain = " ".join(text.split())
    assert parse_guard(text) == Condition(plain, kind, sign, limit, **further)


@pytest.mark.parametrize(
    "text",
    [
        *("", "urp", "urp = 1", "urp > many", "urp > 1 for a while", "urp > 1 or offline > 0"),
        *("metric > 5", "metric 9lives > 5", "metric x{y=1} > 5"),
        *("p99 > 50", "p99 < 50ms", "p100 > 50ms", "moved-wait > 5ms", "latency > 5ms"),
        *("p99 > 1x", "p99 > 0.5x", "p99 > x", "p99 > 2x and 10", "p99 > 2x or > 10ms"),
        *("p99 < 2x", "moved-wait p50 > 2x", "urp > 2x"),
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_guard(text)


@pytest.mark.parametrize(
    ("kind", "away", "count"),
    [
        (Kind.UNDER_REPLICATED, None, 3),
        (Kind.UNDER_REPLICATED, 3, 1),
        (Kind.UNDER_REPLICATED, 9, 2),
        (Kind.UNDER_REPLICATED, 4, 3),
        (Kind.UNDER_MIN_ISR, None, 2),
        (Kind.UNDER_MIN_ISR, 3, 1),
        (Kind.UNDER_MIN_ISR, 9, 2),
        (Kind.AT_MIN_ISR, None, 3),
        (Kind.AT_MIN_ISR, 3, 1),
        (Kind.AT_MIN_ISR, 9, 2),
        (Kind.OFFLINE, None, 1),
        (Kind.OFFLINE, 3, 1),
        (Kind.OFFLINE, 9, 0),
    ],
)
def test_what_lacks_only_the_broker_in_hand_is_not_counted(
    kind: Kind, away: int | None, count: int
) -> None:
    snapshot = cluster_of((1, 2, 3), (1, 2), (1, 3), (9,), isr=[(1, 2), None, (1,)])
    assert count_partitions(kind, snapshot, {"t": 2}, away) == count


@pytest.mark.parametrize(
    ("adding", "count"),
    [
        ((3,), 0),  # it is being copied there
        ((), 1),
        ((2,), 1),
        ((2, 3), 0),
    ],
)
def test_a_replica_that_is_being_added_is_not_missed_yet(
    adding: tuple[int, ...], count: int
) -> None:
    snapshot = cluster_of((1, 2, 3), isr=[(1, 2)])
    busy = {snapshot.partitions[0].id: adding}
    assert count_partitions(Kind.UNDER_REPLICATED, snapshot, {}, None, busy) == count


@pytest.mark.parametrize(
    ("replicas", "isr", "least", "count"),
    [
        ((1, 2, 3), (1, 2), 2, 1),
        ((1, 2, 3, 4), (1, 2, 3), 2, 0),  # one more may go
        ((1, 2, 3), (1,), 2, 1),  # it is beyond it, which is no reason to go on
        ((1, 2), (1, 2), 2, 0),  # it lacks none: so it is all the time
    ],
)
def test_a_partition_at_its_minimum_lacks_replicas_and_has_no_more_than_that(
    replicas: tuple[int, ...], isr: tuple[int, ...], least: int, count: int
) -> None:
    snapshot = cluster_of(replicas, isr=[isr])
    assert count_partitions(Kind.AT_MIN_ISR, snapshot, {"t": least}) == count
    added = {snapshot.partitions[0].id: tuple(set(replicas) - set(isr))}
    assert count_partitions(Kind.AT_MIN_ISR, snapshot, {"t": least}, None, added) == 0


def test_where_min_insync_is_not_known_the_count_is_not_either() -> None:
    for known in ({"t": None}, {}):
        assert count_partitions(Kind.UNDER_MIN_ISR, cluster_of((1,)), known) is None
        assert count_partitions(Kind.AT_MIN_ISR, cluster_of((1,)), known) is None
        assert count_partitions(Kind.UNDER_REPLICATED, cluster_of((1,)), known) == 0


def seen(guard: Guard, *looks: tuple[float, float | None]) -> list[Verdict]:
    """What it says after each look, (time, value)."""
    verdicts = []
    for now, value in looks:
        guard = guard.observe({guard.gauges[0].condition.text: value}, now)
        verdicts.append(guard.verdict)
    return verdicts


@pytest.mark.parametrize(
    ("text", "looks", "verdicts"),
    [
        ("urp > 1", [(0, 0), (1, 1), (9, 0)], [GO, GO, GO]),
        # At once without `for`; it goes on after 5 quiet seconds.
        ("urp > 1", [(0, 2), (1, 0), (5, 0), (6, 0)], [PAUSE, PAUSE, PAUSE, GO]),
        # Quiet begins anew when it is crossed again.
        (
            "urp > 1",
            [(0, 2), (1, 0), (5, 2), (6, 0), (10, 0), (11, 0)],
            [PAUSE, PAUSE, PAUSE, PAUSE, PAUSE, GO],
        ),
        # `for`: only once it has been true all the time.
        ("urp > 1 for 3s", [(0, 2), (2, 2), (2.5, 1), (3, 2), (5, 2)], [GO, GO, GO, GO, GO]),
        ("urp > 1 for 3s", [(0, 2), (2, 2), (3, 2)], [GO, GO, PAUSE]),
        # After 20 seconds of it patience is over, for good.
        (
            "urp > 1",
            [(0, 2), (19, 2), (20, 2), (40, 0), (90, 0)],
            [PAUSE, PAUSE, GIVE_UP] + [GIVE_UP] * 2,
        ),
        # On and off is not quiet: crossed after the patience, it is given up.
        ("urp > 1", [(0, 2), (17, 0), (21, 0), (21.5, 2)], [PAUSE, PAUSE, PAUSE, GIVE_UP]),
        # A new pause has patience of its own.
        ("urp > 1", [(0, 2), (15, 0), (20, 0), (30, 2), (45, 2)], [PAUSE, PAUSE, GO, PAUSE, PAUSE]),
        # What cannot be known is crossed.
        ("urp > 1", [(0, None), (1, 0), (6, 0)], [PAUSE, PAUSE, GO]),
        ("urp > 1 for 2s", [(0, None), (1, 0), (2, None)], [GO, GO, GO]),
    ],
)
def test_when_it_pauses_goes_on_and_gives_up(
    text: str, looks: list[tuple[float, float | None]], verdicts: list[Verdict]
) -> None:
    guard = Guard.of([parse_guard(text)], patience_s=20, quiet_s=5)
    assert seen(guard, *looks) == verdicts


@pytest.mark.parametrize(
    ("text", "undisturbed_ms", "value_ms", "is_crossed"),
    [
        ("p99 > 1.5x", 100, 150, False),
        ("p99 > 1.5x", 100, 151, True),
        ("p99 > 1.5x", 3, 5, True),
        # Under the floor nothing is too much, and above it the factor counts.
        ("p99 > 1.5x and > 10ms", 3, 9, False),
        ("p99 > 1.5x and > 10ms", 3, 11, True),
        ("p99 > 1.5x and > 10ms", 100, 149, False),
        ("p99 > 1.5x and > 10ms", 100, 151, True),
        # What is not known is crossed: the value, or what it is compared with.
        ("p99 > 1.5x", 100, None, True),
        ("p99 > 1.5x", None, 1, True),
    ],
)
def test_latencies_are_compared_with_what_they_were_undisturbed(
    text: str, undisturbed_ms: float | None, value_ms: float | None, is_crossed: bool
) -> None:
    guard = Guard.of([parse_guard(text)], 20, 5)
    assert [condition.text for condition in guard.to_compare] == [text]
    if undisturbed_ms is not None:
        guard = guard.with_undisturbed({text: undisturbed_ms / 1000})
        guard = guard.with_undisturbed({text: 9.0})  # what is known stays
        assert guard.to_compare == ()
        assert guard.undisturbed == {text: undisturbed_ms / 1000}
    guard = guard.observe({text: None if value_ms is None else value_ms / 1000}, 0.0)
    assert bool(guard.crossed) is is_crossed


def test_what_is_undisturbed_is_told_and_kept() -> None:
    conditions = [parse_guard("p99 > 1.5x"), parse_guard("p99 > 50ms")]
    kept = Guard.of(conditions, 20, 5).with_undisturbed({"p99 > 1.5x": 0.02}).undisturbed
    guard = Guard.of(conditions, 20, 5, kept).observe(dict.fromkeys(kept, 0.04), 0.0)
    assert str(guard.crossed[0]) == "p99 > 1.5x (now 40.0 ms, undisturbed 20.0 ms)"
    told = [condition["undisturbed"] for condition in guard.as_document()["conditions"]]
    assert told == [0.02, None]


def test_what_it_saw_is_told() -> None:
    guard = Guard.of([parse_guard("urp > 1"), parse_guard("metric idle < 0.5")], 20, 5)
    for now, urp, idle in ((0.0, 3, 0.9), (1.0, 0, 0.7), (6.0, 0, None), (11.0, 0, 0.8)):
        guard = guard.observe({"urp > 1": urp, "metric idle < 0.5": idle}, now, f"at {now}")
    assert [(g.worst, g.worst_at, g.looks, g.unknown, g.crossings) for g in guard.gauges] == [
        (3, "at 0.0", 4, 0, 1),
        (0.7, "at 1.0", 4, 1, 1),
    ]
    assert (guard.pauses, guard.paused_s, guard.verdict) == (1, 0.0, Verdict.PAUSE)
    assert "quiet" in str(guard)
    assert "urp > 1 (now 3)" in str(
        Guard.of([parse_guard("urp > 1")], 9, 9).observe({"urp > 1": 3}, 0)
    )


def test_without_conditions_it_says_go() -> None:
    assert Guard.of([], 1, 1).observe({}, 5).verdict is GO
