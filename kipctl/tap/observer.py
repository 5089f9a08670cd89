"""What all connections of a tap share: what it knows of the cluster and of clients, its record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kipctl.tap.addresses import Addresses
from kipctl.tap.batches import Batches
from kipctl.tap.clients import Client, Identity
from kipctl.tap.fetches import Fetches
from kipctl.tap.leaders import Leaders
from kipctl.tap.recorder import BackgroundWriter, Recorder
from kipctl.tap.spec import TapSpec
from kipctl.tap.stale_metadata import StaleLeaders

_MOST_CLIENTS = 10_000
_OTHERS = Identity("(other clients)", "", "")


@dataclass(slots=True)
class Observer:
    """Made once for a tap. Times are monotonic microseconds.

    Without `directory` no rows are written. `wall_offset_us` is what the wall clock (Unix epoch) is
    ahead of the monotonic one.
    """

    spec: TapSpec
    directory: Path | None
    addresses: Addresses
    wall_offset_us: int
    leaders: Leaders = field(default_factory=Leaders)
    clients: dict[Identity, Client] = field(default_factory=dict)
    recorder: Recorder = field(init=False)
    writing: BackgroundWriter = field(init=False)
    batches: Batches = field(init=False)
    fetches: Fetches = field(init=False)
    stale: StaleLeaders | None = field(init=False)
    caps: Mapping[int, int] = field(init=False)
    delays: Mapping[int, int] = field(init=False)
    cluster_id: str = ""
    is_ending: bool = False
    """The tap itself closes all connections."""

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.directory)
        self.writing = BackgroundWriter(self.recorder)
        self.batches = Batches(self.leaders, self.recorder, self.wall_offset_us)
        self.fetches = Fetches(self.leaders, self.addresses, self.recorder)
        stale_us = self.spec.stale_metadata_us
        self.stale = StaleLeaders(stale_us) if stale_us else None
        self.caps, self.delays = dict(self.spec.caps), dict(self.spec.delays)

    def client(self, identity: Identity) -> Client:
        """The client of that identity; beyond the first 10,000 those that come are one."""
        if identity not in self.clients and len(self.clients) >= _MOST_CLIENTS:
            identity = _OTHERS
        known = self.clients.get(identity)
        if known is None:
            recorder = self.recorder
            number = (
                recorder.clients.number(identity.client_id),
                recorder.software.number(identity.software_name),
                recorder.versions.number(identity.software_version),
            )
            known = self.clients[identity] = Client(identity, number)
        return known

    def tick(self, now_us: int) -> str:
        """Have rows written, and forget what is too old to matter; call it often.

        Returns what is to be said of it: why no more rows are recorded, else "".
        """
        problem = self.writing.turn()
        self.batches.expire(now_us)
        for client in self.clients.values():
            client.forget_if_gone(now_us)
        return problem

    def close(self) -> None:
        """The tap ends: nothing more comes."""
        self.batches.give_up_all()
        self.fetches.give_up_all()
        self.writing.close()
