"""Of which times there is a log of which broker, from the spans of its files."""

from kipctl.pipeline.request_log.coverage import Logged, hours_apart, logged_by
from kipctl.pipeline.request_log.places import Place, Seen

MINUTE = 60_000_000


def test_files_of_a_broker_follow_each_other_or_leave_a_gap() -> None:
    spans = {"a": (0, 5), "b": (5, 9), "c": (12, 20), "d": (13, 14), "no time": (-1, -1)}
    seen = [
        Seen(file, "h:1", lines=10, first_us=first * MINUTE, last_us=last * MINUTE)
        for file, (first, last) in spans.items()
    ]
    places = [Place(file, "h:1", "c", 1) for file in spans]
    places[0] = Place("a", "h:1", "c", None)
    logged = logged_by(seen, places)
    assert logged["c", "h:1"] == Logged(10, ((0, 5 * MINUTE),))
    own = logged["c", 1]
    assert own == Logged(40, ((5 * MINUTE, 9 * MINUTE), (12 * MINUTE, 20 * MINUTE)))
    assert own.gaps == ((9 * MINUTE, 12 * MINUTE),)
    assert own.minutes == 12


def test_hours_apart_are_those_of_a_log_as_a_whole() -> None:
    def of(start: float, end: float) -> Logged:
        return Logged(1, ((round(start * MINUTE), round(end * MINUTE)),))

    usual: dict[int | str, Logged] = {1: of(0, 10), 2: of(0.5, 10.5)}
    assert hours_apart(usual) == {}
    assert hours_apart({**usual, 3: of(60, 70)}) == {3: 1}
    assert hours_apart({**usual, 3: of(-330, -320)}) == {3: -5.5}
    # It was kept for longer.
    assert hours_apart({**usual, 3: of(-60, 10)}) == {}
    assert hours_apart({1: of(0, 10)}) == {}
