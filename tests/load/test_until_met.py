"""Until when leaders are moved for the clients of a tap, and what hints are worth to each."""

from collections import Counter
from typing import Any

import pytest

from kipctl.load.until_met import Ending, UntilMet, hints_worth, met_by_clients
from kipctl.protocol.api import ApiKey
from kipctl.tap.clients import Counts, Identity
from kipctl.tap.process import ClientSeen, TapOutcome

Met = dict[str, int]


def client(
    name: str,
    moves: int,
    api: ApiKey = ApiKey.PRODUCE,
    connections: int = 1,
    knows_topic: bool = True,
) -> ClientSeen:
    counts = Counts(requests=Counter({int(api): 5}))
    identity = Identity(name, "h", "", "")
    return ClientSeen(identity, counts, connections, moves=moves, knows_topic=knows_topic)


def outcome(*clients: ClientSeen) -> TapOutcome:
    return TapOutcome(0, 0, 0, "", clients, {}, (), 0, 0.0, 0, {})


def played(until: UntilMet, looks: list[Met]) -> int:
    """After how many looks it is the end."""
    for number, met in enumerate(looks, 1):
        if until(outcome(*(client(name, moves) for name, moves in met.items()))):
            return number
    return 0


def test_clients_at_work_are_those_that_are_connected_and_produce_or_fetch() -> None:
    shown = outcome(
        client("a", 7),
        client("reads", 3, ApiKey.FETCH),
        client("asks", 9, ApiKey.METADATA),
        client("gone", 1, connections=0),
        client("of another topic", 0, knows_topic=False),
    )
    assert met_by_clients(shown) == {"a": 7, "reads": 3}
    assert met_by_clients(outcome(client("a", 7), client("a", 5))) == {"a": 5}


@pytest.mark.parametrize(
    ("looks", "ends_after", "rotations", "is_met"),
    [
        ([{}, {}, {}], 0, 0, False),  # nobody is there: nothing is moved
        ([{}, {"a": 0}, {"a": 9}, {"a": 20}], 4, 2, True),
        ([{"a": 0, "b": 0}, {"a": 30, "b": 19}, {"a": 40, "b": 20}], 3, 2, True),
        ([{"a": 0}] * 11, 11, 10, False),  # in vain
        ([*({"a": n // 2} for n in range(40)), {"a": 20}], 41, 40, True),  # slow, not in vain
        ([{"a": n // 5} for n in range(99)], 63, 62, False),  # too slow
        ([{"a": 5}, {}, {}, {"a": 20}], 4, 1, True),  # it is connected again
        ([{"a": 5}, *[{}] * 40], 31, 1, False),  # it is not
        ([{"a": 5, "b": 0}, {"b": 0}, {"b": 20}], 3, 2, True),  # it is not waited for
        # That one meets more does not move leaders for one that meets none.
        ([{"a": 20 + n, "b": 0} for n in range(99)], 11, 10, False),
        ([{f"a{n}": 1} for n in range(99)], 51, 50, False),  # always other ones
    ],
)
def test_the_end_is_when_each_has_met_enough_or_nobody_meets_any(
    looks: list[Met], ends_after: int, rotations: int, is_met: bool
) -> None:
    rotated: list[int] = []
    until = UntilMet(lambda: rotated.append(1), 20)
    assert played(until, looks) == ends_after
    assert (len(rotated), until.rotations, until.is_met) == (rotations, rotations, is_met)


@pytest.mark.parametrize(
    ("ending", "status"),
    [(Ending.IN_VAIN, 7), (Ending.GONE, 7), (Ending.TIME, 6), (Ending.SIGNAL, 130)],
)
def test_an_end_short_of_it_has_its_status(ending: Ending, status: int) -> None:
    until = UntilMet(lambda: None, 20)
    until(outcome(client("a", 5)))
    assert until.shortfall is None
    until.end(ending)
    assert until.shortfall is not None
    assert until.shortfall.status == status
    assert "not every client has met 20 moved leaders (a 5 of 20)" in until.shortfall.what
    until(outcome(client("a", 20)))
    assert until.shortfall is None


def test_a_pause_that_is_asked_for_ends_it() -> None:
    rotated: list[int] = []
    until = UntilMet(lambda: rotated.append(1), 20, lambda: len(rotated) == 2)
    assert played(until, [{"a": n} for n in range(9)]) == 3
    assert until.shortfall is not None
    assert until.shortfall.status == 5


def test_it_says_how_many_are_met() -> None:
    until = UntilMet(lambda: None, 20)
    assert str(until) == "No client is at work yet."
    until(outcome(client("a", 5)))
    assert str(until) == "Rotation 1: a 5 of 20 met."


def test_hints_are_worth_what_is_waited_without_them() -> None:
    def half(**waits: tuple[int, float]) -> list[Any]:
        return [
            {"client_id": name, "host": "h", "moves": {"met": met, "wait_ms": {"p50": ms}}}
            | {"hints": {"sent": name != "old"}}
            for name, (met, ms) in waits.items()
        ]

    with_hints = half(a=(23, 3.0), b=(21, 90.0), old=(20, 90.0), only=(9, 1.0), idle=(0, 0.0))
    without = half(b=(20, 95.0), a=(25, 104.0), idle=(0, 0.0))
    without[0]["host"] = "other"  # another client of that id
    a, b = hints_worth(with_hints, half(b=(20, 95.0), a=(25, 104.0), old=(20, 9.0)))
    assert a == {
        "client_id": "a",
        "host": "h",
        "with_ms": 3.0,
        "without_ms": 104.0,
        "met_with": 23,
        "met_without": 25,
    }
    assert (b["client_id"], b["with_ms"], b["without_ms"]) == ("b", 90.0, 95.0)
    assert [row["client_id"] for row in hints_worth(with_hints, without)] == ["a"]
