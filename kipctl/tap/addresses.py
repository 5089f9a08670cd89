"""Brokers' addresses, and the tap's own that stand for them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kipctl.protocol.address import Address, host_port

UNKNOWN_BROKER = -1


@dataclass(slots=True)
class Addresses:
    """Each broker's address has a port of the tap's own.

    `listen` opens one and returns it at once: clients are told of it in the very next answer.
    """

    listen: Callable[[Address], int]
    _ports: dict[Address, int] = field(default_factory=dict)
    _ids: dict[Address, int] = field(default_factory=dict)
    _places: dict[int, str] = field(default_factory=dict)
    racks: dict[int, str] = field(default_factory=dict)

    def port_for(self, broker: Address) -> int:
        """The tap's port for a broker's address; a listener is made for one that is new."""
        port = self._ports.get(broker)
        if port is None:
            port = self._ports[broker] = self.listen(broker)
        return port

    def learn(self, brokers: Iterable[tuple[int, str, int, str | None]], is_metadata: bool) -> None:
        """Learn ids and racks of brokers: (id, host, port, rack). What Metadata says of an address
        counts more than what a hint says."""
        for broker, host, port, rack in brokers:
            address = Address(host, port)
            if is_metadata:
                self._places[broker] = host_port(host, port)
            elif address in self._ids:
                continue
            self._ids[address] = broker
            if rack:
                self.racks[broker] = rack

    def place(self, broker: int) -> str:
        """Where Metadata says that it is, as host:port; "" if it did not."""
        return self._places.get(broker, "")

    @property
    def ports(self) -> dict[str, int]:
        """The tap's ports by brokers' addresses, as host:port."""
        return {host_port(host, port): ours for (host, port), ours in self._ports.items()}

    def broker_at(self, address: Address) -> int:
        """The id of the broker that was last said to be there, -1 if none was."""
        return self._ids.get(address, UNKNOWN_BROKER)
