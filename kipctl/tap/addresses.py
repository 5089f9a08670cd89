"""Brokers' addresses, and the tap's own that stand for them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Address = tuple[str, int]
"""Host and port."""
UNKNOWN_BROKER = -1


@dataclass(slots=True)
class Addresses:
    """Each broker's address has one of the tap's own.

    `listen` makes one and returns it at once: clients are told of it in the very next answer.
    """

    listen: Callable[[Address], Address]
    _ours: dict[Address, Address] = field(default_factory=dict)
    _ids: dict[Address, int] = field(default_factory=dict)
    racks: dict[int, str] = field(default_factory=dict)

    def translate(self, host: str, port: int) -> Address:
        """The tap's address for a broker's; a listener is made for one that is new."""
        theirs = host, port
        ours = self._ours.get(theirs)
        if ours is None:
            ours = self._ours[theirs] = self.listen(theirs)
        return ours

    def name(self, brokers: Iterable[tuple[int, str, int, str | None]]) -> None:
        """Learn ids and racks of brokers, as Metadata gives them: (id, host, port, rack)."""
        for broker, host, port, rack in brokers:
            self._ids[host, port] = broker
            if rack:
                self.racks[broker] = rack

    @property
    def listeners(self) -> dict[str, str]:
        """The tap's addresses by brokers', both as host:port."""
        return {
            f"{theirs[0]}:{theirs[1]}": f"{ours[0]}:{ours[1]}"
            for theirs, ours in self._ours.items()
        }

    def broker_at(self, address: Address) -> int:
        """The id of the broker that was last said to be there, -1 if none was."""
        return self._ids.get(address, UNKNOWN_BROKER)
