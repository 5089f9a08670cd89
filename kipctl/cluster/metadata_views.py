"""Each broker's own view of the cluster, compared: who is behind, and in what."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kipctl.cluster.snapshot import (
    Broker,
    Partition,
    PartitionId,
    Snapshot,
    from_metadata,
)
from kipctl.errors import KipctlError
from kipctl.protocol.metadata import MetadataRequest
from kipctl.transport.request import Cluster

T = TypeVar("T")

LOOKS = 3
_BETWEEN_LOOKS_S = 0.2


@dataclass(frozen=True, slots=True)
class Difference:
    """A partition that a broker shows otherwise than the newest view has it.

    `shown` is None where the broker does not show the partition at all.
    """

    id: PartitionId
    newest: Partition
    shown: Partition | None

    @property
    def is_behind(self) -> bool:
        """The broker does not know the partition, or its newest leader epoch."""
        return self.shown is None or self.shown.leader_epoch < self.newest.leader_epoch

    @property
    def epochs_behind(self) -> int | None:
        """How many leader epochs; None where the broker does not show the partition."""
        if self.shown is None:
            return None
        return self.newest.leader_epoch - self.shown.leader_epoch


@dataclass(frozen=True, slots=True)
class Standing:
    """How a broker's view stands to the newest. `snapshot` is None when it did not answer.

    `unseen` are brokers that most others show and it does not, `extra` those only it shows.
    """

    broker: Broker
    snapshot: Snapshot | None
    differences: tuple[Difference, ...] = ()
    unseen: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    error: KipctlError | None = None

    @property
    def behind(self) -> tuple[Difference, ...]:
        return tuple(difference for difference in self.differences if difference.is_behind)

    @property
    def agrees(self) -> bool:
        return not (self.differences or self.unseen or self.extra or self.error)


@dataclass(frozen=True, slots=True)
class Compared:
    """How all brokers stand, after so many looks: there is another while they differ."""

    standings: tuple[Standing, ...]
    looks: int

    @property
    def agree(self) -> bool:
        return all(standing.agrees for standing in self.standings)

    @property
    def may_agree(self) -> bool:
        """Whether another look may show it: who does not answer is not asked again."""
        return any(not standing.agrees and not standing.error for standing in self.standings)


def not_alive(snapshot: Snapshot) -> tuple[int, ...]:
    """Brokers that have replicas and that Metadata does not list: stopped or fenced ones."""
    named = {broker for partition in snapshot.partitions for broker in partition.replicas}
    return tuple(sorted(named - set(snapshot.broker_ids)))


def compare_views(
    cluster: Cluster, brokers: Sequence[Broker], topics: Sequence[str] | None = None
) -> Compared:
    """Ask every broker until they agree on these topics (None: on all), at most three times."""
    looks = 1
    while True:
        standings = compare(brokers, _views(cluster, brokers, topics))
        compared = Compared(standings, looks)
        if looks == LOOKS or not compared.may_agree:
            return compared
        looks += 1
        time.sleep(_BETWEEN_LOOKS_S)


def _views(
    cluster: Cluster, brokers: Sequence[Broker], topics: Sequence[str] | None
) -> dict[int, Snapshot | KipctlError]:
    # All topics, as a broker that is behind may not know one that is named, and refuse.
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    views: dict[int, Snapshot | KipctlError] = {}
    for broker in brokers:
        try:
            view = from_metadata(cluster.broker(broker.id).request(request))
        except KipctlError as error:
            views[broker.id] = error
            continue
        if topics is not None:
            view = view.only(p.id for p in view.partitions if p.id.topic in topics)
        views[broker.id] = view
    return views


def compare(
    brokers: Sequence[Broker], views: Mapping[int, Snapshot | KipctlError]
) -> tuple[Standing, ...]:
    """How each broker's view stands to the newest that any broker has.

    A partition's newest view is that of the highest leader epoch, among those what most brokers
    show: a change of its replicas or of the ISR raises no epoch that Metadata would tell.
    """
    answers = {id: view for id, view in views.items() if isinstance(view, Snapshot)}
    newest = _newest(answers.values())
    alive = _most_common(v.broker_ids for v in answers.values()) if answers else ()
    standings = []
    for broker in brokers:
        view = views[broker.id]
        if not isinstance(view, Snapshot):
            standings.append(Standing(broker, None, error=view))
            continue
        shown = view.by_id
        differences = tuple(
            Difference(id, partition, shown.get(id))
            for id, partition in newest.items()
            if shown.get(id) != partition
        )
        unseen = tuple(sorted(set(alive) - set(view.broker_ids)))
        extra = tuple(sorted(set(view.broker_ids) - set(alive)))
        standings.append(Standing(broker, view, differences, unseen, extra))
    return tuple(standings)


def _newest(views: Iterable[Snapshot]) -> dict[PartitionId, Partition]:
    shown: dict[PartitionId, list[Partition]] = {}
    for view in views:
        for partition in view.partitions:
            shown.setdefault(partition.id, []).append(partition)
    newest = {}
    for id, partitions in sorted(shown.items()):
        epoch = max(partition.leader_epoch for partition in partitions)
        newest[id] = _most_common(p for p in partitions if p.leader_epoch == epoch)
    return newest


def _most_common(values: Iterable[T]) -> T:
    """The first of those that occur most often; there must be one."""
    return Counter(values).most_common(1)[0][0]
