"""What a canary's rows come to: latencies and waits of the last seconds, by table."""

import numpy as np
import pytest

from kipctl.guard.canary import MOVES_WINDOW_US, WINDOW_US, RecentLatencies
from kipctl.guard.conditions import parse_guard
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

P50, P99, MOVED = map(parse_guard, ("p50 > 1ms", "p99 > 1ms", "moved-wait p50 > 1ms"))


def rows(dataset: str, *values: dict[str, int]) -> IntRows:
    columns = COLUMNS[dataset]
    return np.array(
        [[value.get(name, 0) for name in columns] for value in values], dtype=np.int64
    ).reshape(len(values), len(columns))


def batches(*latencies_ms: int, error: int = 0) -> IntRows:
    return rows(
        "batches",
        *(
            {"intended_us": 5, "acked_us": 5 + 1000 * ms, "records": 1, "error": error}
            for ms in latencies_ms
        ),
    )


def moved(*waits_ms: int) -> IntRows:
    """One refused batch, and so one moved leader, each."""
    return rows(
        "redirects",
        *(
            {
                "partition": n,
                "attempt": 1,
                "error": 6,
                "from_epoch": 1,
                "to_epoch": 2,
                "backoff_us": 1000 * ms,
            }
            for n, ms in enumerate(waits_ms)
        ),
    )


NONE_B, NONE_R = batches(), moved()


def test_a_moved_leader_is_one_however_many_batches_met_it_and_whenever_they_are_read() -> None:
    recent = RecentLatencies()
    for seen_us, met in enumerate((moved(5, 40), moved(9), NONE_R, moved(2), NONE_R)):
        recent.add(NONE_B, met, seen_us)
    assert recent.new_waits() == (0.009, 0.04)
    assert recent.values([MOVED]) == {MOVED.text: 0.009}
    # One that was told is not new when another batch meets it.
    recent.add(NONE_B, moved(3), 6)
    recent.add(NONE_B, NONE_R, 7)
    assert recent.new_waits() == ()


def test_a_batch_that_is_read_in_two_halves_waited_for_both() -> None:
    first, second = moved(5), moved(7)
    first[:, COLUMNS["redirects"].index("to_epoch")] = 1
    second[:, COLUMNS["redirects"].index("attempt")] = 2
    recent = RecentLatencies()
    for seen_us, met in enumerate((first, second, NONE_R)):
        recent.add(NONE_B, met, seen_us)
    assert recent.new_waits() == (0.012,)


@pytest.mark.parametrize(
    ("added", "values"),
    [
        ([], (None, None, 0)),
        ([(0, batches(10, 20, 30), NONE_R)], (0.02, 0.03, 0)),
        ([(0, batches(10), moved(5, 7, 9))], (0.01, 0.01, 0.007)),
        # What is longer ago than the window does not count any more.
        ([(0, batches(90), NONE_R), (WINDOW_US, batches(10), NONE_R)], (0.01, 0.09, 0)),
        ([(0, batches(90), NONE_R), (WINDOW_US + 1, batches(10), NONE_R)], (0.01, 0.01, 0)),
        ([(0, batches(90), moved(8)), (WINDOW_US + 1, NONE_B, NONE_R)], (None, None, 0.008)),
        ([(0, NONE_B, moved(8)), (MOVES_WINDOW_US + 1, NONE_B, NONE_R)], (None, None, 0)),
    ],
)
def test_the_latest_figures(
    added: list[tuple[int, IntRows, IntRows]], values: tuple[float | None, ...]
) -> None:
    recent = RecentLatencies()
    for seen_us, settled, redirects in added:
        recent.add(settled, redirects, seen_us)
        recent.add(NONE_B, NONE_R, seen_us)  # a batch is whole when nothing has come since
    assert tuple(recent.values([P50, P99, MOVED]).values()) == values


def test_a_record_that_was_given_up_is_longer_than_any_limit() -> None:
    recent = RecentLatencies()
    recent.add(batches(1, 1, error=7), moved(), 0)
    value = recent.values([P99])[P99.text]
    assert value is not None
    assert value > 1e6
