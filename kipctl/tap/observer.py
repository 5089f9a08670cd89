"""What all connections of a tap share: what it knows of the cluster and of clients, its record."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kipctl.protocol.address import Address
from kipctl.tap.addresses import Addresses
from kipctl.tap.batches import Batches
from kipctl.tap.clients import Client, Identity
from kipctl.tap.episodes import Episodes
from kipctl.tap.fetches import Fetches
from kipctl.tap.frames import client_id_of
from kipctl.tap.leaders import UNKNOWN, Leaders, PartitionId
from kipctl.tap.moves_met import Move
from kipctl.tap.recorder import BackgroundWriter, Recorder
from kipctl.tap.shown_metadata import ShownMetadata
from kipctl.tap.sightings import Sightings, Signs
from kipctl.tap.spec import TapSpec
from kipctl.tap.stale_metadata import StaleLeaders
from kipctl.tap.watch import Watch
from kipctl.trace.clock import now_us

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
    watch: Watch = field(default_factory=Watch)
    signs: Signs = field(default_factory=Signs)
    shown: ShownMetadata = field(init=False)
    _of_host: dict[tuple[str, str], Client] = field(default_factory=dict)
    """The client that came last, by client id and host."""
    _hosts: dict[str, str] = field(default_factory=dict)
    """The first host of each client id."""

    def __post_init__(self) -> None:
        self.shown = ShownMetadata(self.leaders)
        self.recorder = Recorder(self.directory)
        self.leaders.changed = self._record_leader
        self.writing = BackgroundWriter(self.recorder)
        self.batches = Batches(self.leaders, self.recorder, self.wall_offset_us)
        self.fetches = Fetches(self.leaders, self.addresses, self.recorder)
        stale_us = self.spec.stale_metadata_us
        self.stale = StaleLeaders(stale_us) if stale_us else None
        self.caps, self.delays = dict(self.spec.caps), dict(self.spec.delays)

    def client(self, identity: Identity, has_asked: bool = False) -> Client:
        """The client of that identity; beyond the first 10,000 those that come are one.

        Clients may name their software on one of their connections only. So a connection that has
        not said anything of it (`has_asked` for ApiVersions) belongs to the client of that id and
        host that was named last; and one that is named takes along those that were there before.
        """
        place = identity.client_id, identity.host
        last = self._of_host.get(place)
        known = self.clients.get(identity)
        if not (identity.software_name or has_asked) and last is not None:
            known = last
        elif known is None and last is not None and _may_be_renamed(last):
            known = self.clients[identity] = self.clients.pop(last.identity)
            known.identity, known.number = identity, self._number(identity)
        if known is None:
            if len(self.clients) >= _MOST_CLIENTS:
                identity = _OTHERS
            known = self.clients.get(identity)
            if known is None:
                sightings = Sightings(self.signs, identity.client_id)
                episodes = Episodes(self.leaders, self.watch, sightings)
                known = Client(identity, self._number(identity), episodes)
                episodes.moves.record = partial(self._record_move, known)
                self.clients[identity] = known
        if identity is not _OTHERS:
            self._of_host[place] = known
        known.names_none |= has_asked and not identity.software_name
        return known

    def not_reached(self, first: bytes, broker: Address | None, host: str, now_us: int) -> None:
        """A connection to that broker (None: to a bootstrap server) could not be made for a client
        of that host, which began with `first`."""
        client = self._of_host.get((client_id_of(first), host))
        if client is None:
            return
        if broker is None:
            client.unreachable.bootstrapped(now_us)
        else:
            self.failed(client, self.addresses.broker_at(broker), now_us)

    def failed(
        self, client: Client, broker: int, now_us: int, under_way: Collection[PartitionId] = ()
    ) -> None:
        """A connection to that broker was not made, or was lost with these under way."""
        if broker == UNKNOWN:
            return
        for event in client.unreachable.failed(broker, now_us, under_way):
            client.sightings.note(event, now_us, broker=broker)

    def _record_leader(self, partition: PartitionId, before: int, leader: int, epoch: int) -> None:
        where = self.recorder.topics.number(partition.topic), partition.partition
        self.recorder.event((*where, before, leader, epoch, UNKNOWN, now_us()))

    def _record_move(
        self, client: Client, move: Move, error_us: int, wait_us: int | None, not_ready: int
    ) -> None:
        topic = self.recorder.topics.number(move.partition.topic)
        where = topic, move.partition.partition, move.generation, move.epoch
        wait_us = UNKNOWN if wait_us is None else wait_us
        self.recorder.move((client.number[0], move.api, *where, error_us, wait_us, not_ready))

    def _number(self, identity: Identity) -> tuple[int, int, int]:
        """How rows name it: a client id that other hosts had before with its host."""
        name, host = identity.client_id, identity.host
        recorder = self.recorder
        is_first = self._hosts.setdefault(name, host) == host
        return (
            recorder.clients.number(name if is_first else f"{name} ({host})"),
            recorder.software.number(identity.software_name),
            recorder.versions.number(identity.software_version),
        )

    def tick(self, now_us: int) -> str:
        """Have rows written, and forget what is too old to matter; call it often.

        Returns what is to be said of it: why no more rows are recorded, else "".
        """
        problem = self.writing.turn()
        self.batches.expire(now_us)
        for client in self.clients.values():
            client.tick(now_us)
        return problem

    def close(self) -> None:
        """The tap ends: nothing more comes."""
        self.batches.give_up_all()
        self.fetches.give_up_all()
        self.writing.close()


def _may_be_renamed(client: Client) -> bool:
    """Nothing is known of its software yet."""
    return not client.identity.software_name and not client.names_none
