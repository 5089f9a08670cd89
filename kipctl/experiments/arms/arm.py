"""Arms of an experiment: a client under test, and what the tap before it takes away from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from kipctl.load.clients.client import Client
from kipctl.protocol.api import ApiKey
from kipctl.transport.access import Access

T = TypeVar("T")
WITHOUT_HINTS = ((int(ApiKey.PRODUCE), 9), (int(ApiKey.FETCH), 15))
"""The newest versions that name no new leader in their errors (KIP-951, "Public Interfaces")."""
REJECTED = "rejected alternative"
UNHINTED = "-unhinted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A client, the highest API versions that it is shown, whether hints are taken out, and
    settings of its own by the client's own names. Each kind of client is a class, in a file."""

    only_produces: ClassVar[bool] = False
    """Where records are read too, it is none."""
    sets_own_rate: ClassVar[bool] = False
    """It is not told how many records to send in a second."""
    own_record_size: ClassVar[int] = 0
    """Bytes of its records, whatever is asked for; 0 for what is asked for."""
    usual: ClassVar[tuple[str, ...]] = ()
    """Those that are measured unless others are asked for."""
    further: ClassVar[tuple[str, ...]] = ()
    """How others of the kind are named, for people."""

    name: str
    caps: tuple[tuple[int, int], ...] = ()
    drop_hints: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def takes_hints(self) -> bool:
        """Whether it gets leader hints, and sends to the leader that they name at once."""
        return not (self.caps or self.drop_hints) and self.follows_hints

    @property
    def follows_hints(self) -> bool:
        """Whether it sends to the leader that a hint names at once, where it gets one; True of
        clients of which that is what is asked."""
        return True

    @property
    def kip_arm(self) -> str:
        """Which arm of the KIP's micro-benchmark it is: a key of PUBLISHED; "" for none of them."""
        return ""

    @property
    def leader_discovery(self) -> str:
        """How it finds the new leader, as runs have it; of other clients than kipctl's, whose."""
        return f"of {self.name}"

    def given(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Its configuration: these, by the names of Java's producer, and its own settings; of what
        only produces, who has to acknowledge: all else is its own affair."""
        if self.only_produces:
            return {name: value for name, value in properties.items() if name == "acks"}
        return {**properties, **dict(self.settings)}

    def reference(self, alike: Sequence["Arm"]) -> "Arm | None":
        """Of these arms of its kind the one that does the least: what it is compared with.

        Unless a kind has another rule it is the same client without hints.
        """
        return next((other for other in alike if other.name == self.name + UNHINTED), None)

    def fetched(self, access: Access | None, message: Callable[[str], None]) -> Client | None:
        """Its client, fetched if need be; None for kipctl's own, which is there.

        `access` is that of the cluster, None where a lab is made. Raises KipctlError for what is
        missing, and for a cluster that it cannot connect to.
        """
        return None


def pairs(arms: Sequence[Arm]) -> tuple[tuple[Arm, Arm], ...]:
    """Which arms are compared: (without, with), of one kind of client.

    Each with its reference, and one that takes hints with each of its kind that is the rejected
    alternative.
    """
    compared = []
    for arm in arms:
        alike = [other for other in arms if type(other) is type(arm)]
        reference = arm.reference(alike)
        if reference is not None and reference != arm:
            compared.append((reference, arm))
        if arm.takes_hints:
            rejected = (other for other in alike if other.kip_arm == REJECTED)
            compared += [(other, arm) for other in rejected if other != reference]
    return tuple(compared)


def in_turn(arms: Sequence[T], runs: int) -> tuple[tuple[T, int], ...]:
    """The order of all runs, each an arm and its run's number from 1.

    Arms take turns, and every other turn goes the other way round, so that no arm always follows
    the same one and a machine that slows down slows all alike.
    """
    return tuple(
        (arm, number)
        for number in range(1, runs + 1)
        for arm in (arms if number % 2 else reversed(arms))
    )
