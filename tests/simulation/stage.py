"""What plays of all clients share: the cluster, and a watch on the client at every turn."""

import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from fake_kafka import NO_ID, SimulatedCluster, Versions
from story import AnyStory, Faults, perform
from world import SimulatedSockets, World

from kipctl.conform.cluster.cluster import HOST
from kipctl.probe.metadata_updater import MetadataUpdater
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.trace.codes import PHASES, Decision, MetadataCause
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import read_rows


class Broken(AssertionError):  # noqa: N818
    """An invariant does not hold. Its text tells the story."""


BOOTSTRAP = Address("bootstrap", 9092)


Seen = Counter[str]
"""What was reached, and how often."""


def named(member: IntEnum) -> str:
    """How `Seen` calls it."""
    return f"{type(member).__name__}.{member.name}"


class Stage:
    """One run of a client in a story. A client's own stage says how it is made and watched."""

    story: AnyStory

    def __init__(
        self,
        story: AnyStory,
        faults: Faults,
        cluster: Callable[..., SimulatedCluster],
        versions: Versions,
        topics: Sequence[str],
        directory: Path,
    ) -> None:
        """`faults` are all that may happen in such a story, `versions` those that brokers speak."""
        self.story, self.directory = story, directory
        self.world = world = World(random.Random(story.seed))
        self._faults = faults
        chance = world.chance
        self.cluster = cluster(
            story.brokers,
            story.partitions,
            versions=versions,
            topics=topics,
            world=world,
            lag_us=lambda: chance.choice((0, 0.1, 1)) * story.lag_us,
        )
        self.cluster.names_leaders, self.cluster.endpoints = story.hints, story.endpoints
        self.cluster.own_host = "localhost" if story.proxied else HOST
        self.cluster.has_draft_hints = True
        for name in topics:
            for partition in range(story.partitions):
                self.cluster.elect(partition, chance.randint(1, story.brokers), name)
        self.cluster.all_hear()
        self.sockets = SimulatedSockets(
            world,
            self._listening,
            lambda: story.delay_us * chance.choice((0.5, 1, 1, 3)),
            self._watch,
            rooms=(500, 1 << 20),
            pieces=(7, 100, 1 << 20),
        )
        self.settle_until_us = 1 << 62
        self._epochs: dict[Any, tuple[Any, int]] = {}
        self._due_since_us: int | None = None
        self._sent_before: set[tuple[int, int]] = set()

    def run(self) -> Seen:
        """Play it to its end, and look back."""
        raise NotImplementedError

    def let_happen(self) -> None:
        """The faults come, counted from now on; all must be settled some time after the last."""
        story, world = self.story, self.world
        for fault in story.faults:
            happen = partial(perform, fault, self._faults, self.cluster)
            world.after(fault.at_us, happen)
        self.settle_until_us = world.now_us + story.over_us + story.patience_us

    def _listening(self, host: str, port: int) -> Any:
        if host == BOOTSTRAP.host:  # whoever is up, as behind a load balancer
            up = [broker for broker in self.cluster.brokers.values() if broker.is_up]
            return self.world.chance.choice(up) if up else None
        there = [broker for broker in self.cluster.brokers.values() if broker.port == port]
        is_paused = bool(there) and there[0].paused_until_us > self.world.now_us
        if not there or (is_paused and self.world.chance.random() < 0.5):
            return None
        return there[0]

    # --- at every turn ---

    def _watch(self) -> None:
        raise NotImplementedError

    def leaders_have_led(
        self,
        metadata: MetadataUpdater[Any, Any],
        partitions: Iterable[Any],
        others: Iterable[UUID] = (),
    ) -> None:
        """What the client believes was true once, and its epochs do not fall.

        `others` are ids of topics that a leader may be of instead of the one it is believed of.
        """
        in_use = metadata._topics_in_use
        for partition in partitions:
            if in_use and partition.topic.name not in in_use.topics:
                # Idle topics are forgotten, epochs too, as in Java; a hint for what was sent before
                # may have come since.
                self._epochs.pop(partition, None)
            leader = metadata._leadership._leaders.get(partition)
            if leader is None:
                if in_use:
                    self._epochs.pop(partition, None)
                continue
            known_id, known = self._epochs.get(partition, (None, -1))
            has_epochs = self.story.metadata_version >= 9  # else each answer counts, as in Java
            if known_id == partition.topic.id and has_epochs:
                assert leader.epoch >= known or leader.epoch < 0, (
                    f"epoch of {partition.index} fell from {known} to {leader.epoch}"
                )
            self._epochs[partition] = partition.topic.id, leader.epoch
            if leader.id >= 0 and leader.epoch >= 0:
                id = partition.topic.id
                reigns = {
                    self.cluster.reigns.get((id, partition.index, leader.epoch))
                    for id in (self.cluster.names if id == NO_ID else (id, *others))
                }
                assert leader.id in reigns, (
                    f"{leader.id} is believed to lead {partition.index} in epoch {leader.epoch}:"
                    f" it was {reigns}"
                )

    def metadata_goes_first(self, metadata: MetadataUpdater[Any, Any], after: set[ApiKey]) -> None:
        """While a Metadata request is due, and was at the last turn, none of those goes out."""
        now = self.world.now_us
        sent = {
            (socket.number, flight.correlation_id)
            for socket in self.sockets.open.values()
            if socket.connection and not socket.is_closed
            for flight in socket.connection.in_flight
            if flight.api_key in after
        }
        policy = metadata._policy
        due = policy.in_flight is None and policy.due_us(metadata._new_topics) <= now
        if due and self._due_since_us is not None:
            new = sent - self._sent_before
            assert not new, "other requests go out while Metadata is due"
        self._due_since_us = now if due else None
        self._sent_before = sent

    # --- afterwards ---

    def rows(self, dataset: str) -> list[dict[str, int]]:
        columns = COLUMNS[dataset]
        rows = read_rows(raw_path(self.directory, dataset), len(columns)).tolist()
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def seen(self, **counts: int) -> Seen:
        seen = Seen(counts)
        for row in self.rows("redirects"):
            seen[named(Decision(row["decision"]))] += 1
            seen["refused of a topic made anew"] += row["topic_generation"] > 0
            seen.update(phase for phase in PHASES if row[f"{phase}_us"])
        for row in self.rows("rpcs"):
            if row["cause"] >= 0:
                seen[named(MetadataCause(row["cause"]))] += 1
        return seen

    def retries_back_off(self, elsewhere_too: bool = True) -> None:
        """A retry to an epoch that is not newer comes after the backoff.

        One at another broker need not, where a replica was read that does not lead.
        """
        least_us = self.story.config.retry_backoff_ms * 1000 * 0.79
        for row in self.rows("redirects"):
            is_elsewhere = row["to_broker"] != row["from_broker"]
            if (
                row["same_epoch_retry"]
                and row["to_broker"] >= 0
                and (elsewhere_too or not is_elsewhere)
            ):
                waited = sum(row[f"{p}_us"] for p in ("backoff", "metadata", "connect", "queued"))
                assert waited >= least_us, f"a retry to the same epoch after {waited} us: {row}"


def played(make: Callable[[Path], Stage], story: AnyStory) -> Seen:
    """Play it on the stage that is made for it. Raises Broken."""
    random.seed(story.seed)  # what the client leaves to chance
    stage: Stage | None = None
    try:
        with tempfile.TemporaryDirectory() as directory:
            stage = make(Path(directory))
            with stage.world.rules_time():
                return stage.run()
    except Exception as broken:
        told = stage.world.story if stage else ""
        where = "".join(traceback.format_tb(broken.__traceback__)[-2:])
        raise Broken(f"{broken!r}\n{story}\nwhat happened:\n{told}\n{where}") from broken
