"""`kipctl tap --rotate`: leaders move until each client of the tap has met so many of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kipctl.counts import counted
from kipctl.documents.common import Action
from kipctl.documents.tap import HintsWorth, TapClient, TapDocument
from kipctl.errors import ExitStatus, KipctlError, error_of
from kipctl.protocol.api import ApiKey
from kipctl.tap.process import ClientSeen, TapOutcome
from kipctl.trace.clock import now_us

_DATA = (ApiKey.PRODUCE, ApiKey.FETCH)
_IN_VAIN = 10
"""Rotations of which one client meets nothing: it does not use these partitions, or not enough."""
_ALL_IN_VAIN = 50
"""Rotations, in all, of which no client that lacks some meets any."""
_AWAY = 30
"""Looks, about one a second, without a client at work: none comes back."""


class Ending(Enum):
    """Why it ended; where not each client has met what is wanted, with which status."""

    MET = ExitStatus.DONE, ""
    IN_VAIN = ExitStatus.THRESHOLD_NOT_MET, "More rotations were in vain"
    GONE = ExitStatus.THRESHOLD_NOT_MET, "No client is connected any more"
    CLIENT_ENDED = ExitStatus.THRESHOLD_NOT_MET, "The client of --run ended"
    TIME = ExitStatus.TIMED_OUT, "The time of --for is over"
    PAUSED = ExitStatus.PARTLY_DONE, "Paused"
    SIGNAL = ExitStatus.INTERRUPTED, "Interrupted"


def met_by_clients(outcome: TapOutcome) -> dict[str, int]:
    """How many moved leaders each client at work has met: it is connected, has produced or fetched,
    and knows the topic. One name may be that of several hosts: the one that met the fewest
    counts."""
    met: dict[str, int] = {}
    for seen in filter(_is_at_work, outcome.clients):
        name = seen.identity.client_id or "-"
        met[name] = min(seen.moves, met.get(name, seen.moves))
    return met


def _is_at_work(seen: ClientSeen) -> bool:
    has_data = any(seen.counts.requests[api] for api in _DATA)
    return bool(seen.connections) and has_data and seen.knows_topic


def _never() -> bool:
    return False


@dataclass(slots=True)
class UntilMet:
    """Called after each look at the tap, about once a second: rotates the leaders once more, unless
    nobody is at work yet, and says whether that is the end."""

    rotate: Callable[[], int | None]
    """Returns of how many partitions, if it knows."""
    wanted: int
    is_to_pause: Callable[[], bool] = _never
    topic: str = ""
    rotations: int = 0
    met: Mapping[str, int] = field(default_factory=dict)
    """By client, when some were at work last."""
    ending: Ending | None = None
    actions: list[Action] = field(default_factory=list)
    """Its rotations, in time."""
    _met_last: dict[str, int] = field(default_factory=dict)
    """By client, the rotation after which it had met more, or was first seen."""
    _in_vain: int = 0
    _away: int = 0

    def __call__(self, outcome: TapOutcome) -> bool:
        """Raises what `rotate` does."""
        now = met_by_clients(outcome)
        self._away = 0 if now else self._away + 1
        if now:
            self._note(now)
        if (ending := self._ends()) is not None:
            self.end(ending)
        elif now:
            self._rotate(outcome.start_us)
        return self.ending is not None

    def _rotate(self, start_us: int) -> None:
        """It is over when every broker knows; when the controller had done it is not looked at."""
        done: Action = {
            "action": "rotate",
            "called_ms": (now_us() - start_us) / 1000,
            "answered_ms": None,
            "converged_ms": None,
            "partitions": None,
            "error": None,
        }
        self.actions.append(done)
        try:
            done["partitions"] = self.rotate()
        except KipctlError as failed:
            done["error"] = failed.what
            raise
        done["converged_ms"] = (now_us() - start_us) / 1000
        self.rotations += 1

    def _note(self, now: Mapping[str, int]) -> None:
        known = {name: self.met.get(name, moves) for name, moves in now.items()}
        lacking = [name for name, moves in known.items() if moves < self.wanted]
        if self.rotations and not any(now[name] > known[name] for name in lacking):
            self._in_vain += 1
        for name, moves in now.items():
            if moves > known[name] or name not in self._met_last:
                self._met_last[name] = self.rotations
        self.met = now

    def _ends(self) -> Ending | None:
        if self.is_met:
            return Ending.MET
        if self.is_to_pause():
            return Ending.PAUSED
        if self.met and self._away >= _AWAY:
            return Ending.GONE
        waited_for = [
            name
            for name, moves in self.met.items()
            if moves < self.wanted and self.rotations - self._met_last[name] < _IN_VAIN
        ]
        is_in_vain = self._in_vain >= _ALL_IN_VAIN or (self.met and not waited_for)
        return Ending.IN_VAIN if is_in_vain else None

    def end(self, why: Ending) -> None:
        """It is over; what is said first counts."""
        self.ending = self.ending or why

    @property
    def is_met(self) -> bool:
        """Whether each client has met what is wanted."""
        return bool(self.met) and min(self.met.values()) >= self.wanted

    def add_to(self, document: TapDocument) -> None:
        """Say what was rotated, and whether that was enough."""
        document["actions"] = self.actions
        document["rotations"], document["rotated_topic"] = self.rotations, self.topic
        document["wanted_moves"], document["all_met"] = self.wanted, self.is_met

    @property
    def shortfall(self) -> KipctlError | None:
        """The error where it ended before each client had met what is wanted."""
        if self.ending is None or self.is_met:
            return None
        status, why = self.ending.value
        met = ", ".join(f"{name} {moves:,} of {self.wanted:,}" for name, moves in self.met.items())
        return error_of(
            status,
            f"{why}: not every client has met {counted(self.wanted, 'moved leader')}"
            f" ({met or 'none was at work'}).",
            "Let it use more partitions of the topic, or want fewer: --until-met N.",
        )

    def __str__(self) -> str:
        if not self.met:
            return "No client is at work yet."
        told = (f"{name} {moves} of {self.wanted} met" for name, moves in self.met.items())
        return f"Rotation {self.rotations}: {', '.join(told)}."


def hints_worth(with_hints: Sequence[TapClient], without: Sequence[TapClient]) -> list[HintsWorth]:
    """What hints save each client that met moved leaders with them and without; to one that was
    sent none they are worth nothing that could be measured."""
    others = {_who(client): client for client in without if client["moves"]["met"]}
    return [
        {
            "client_id": client["client_id"],
            "host": client["host"],
            "with_ms": client["moves"]["wait_ms"]["p50"],
            "without_ms": others[_who(client)]["moves"]["wait_ms"]["p50"],
            "met_with": client["moves"]["met"],
            "met_without": others[_who(client)]["moves"]["met"],
        }
        for client in with_hints
        if client["moves"]["met"] and client["hints"]["sent"] and _who(client) in others
    ]


def _who(client: TapClient) -> tuple[str, str]:
    return client["client_id"], client["host"]
