"""Each broker's own view of the cluster, compared: who is behind, and in what."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kipctl.cluster.metadata_convergence import sample_brokers
from kipctl.cluster.snapshot import (
    Broker,
    Partition,
    PartitionId,
    Snapshot,
    from_metadata,
)
from kipctl.errors import KipctlError
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import metadata_request
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

T = TypeVar("T")

LOOKS = 3
_BETWEEN_LOOKS_S = 0.2
_DEADLINE_S = 30.0
"""For all brokers together, at each look."""
_LEAST_ASKED = 3
_NOT_KNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)


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
class ViewOfBroker:
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
class ComparedViews:
    """How the brokers that were asked stand, after so many looks: another while they differ."""

    views: tuple[ViewOfBroker, ...]
    looks: int

    @property
    def agree(self) -> bool:
        return all(view.agrees for view in self.views)

    @property
    def may_agree(self) -> bool:
        """Whether another look may show it: who does not answer is not asked again."""
        return any(not view.agrees and not view.error for view in self.views)


def answer_bytes(snapshot: Snapshot) -> int:
    """How long a broker's answer is that shows all of this (Metadata 12, the same to a few bytes
    in versions from 9 on)."""
    partitions = sum(
        18 + 4 * (len(p.replicas) + len(p.isr) + len(p.offline)) for p in snapshot.partitions
    )
    topics = sum(28 + len(topic) for topic in snapshot.topics)
    return partitions + topics + sum(24 + len(broker.host) for broker in snapshot.brokers)


def sampled(brokers: Sequence[Broker], answer_bytes: int, most_bytes: int) -> tuple[Broker, ...]:
    """So many brokers that their answers have `most_bytes` together, but three at least.

    They are spread evenly over racks and ids.
    """
    number = max(_LEAST_ASKED, most_bytes // max(1, answer_bytes))
    return tuple(brokers) if number >= len(brokers) else sample_brokers(brokers, number)


def compare_views(
    cluster: Cluster, brokers: Sequence[Broker], topics: Sequence[str] | None = None
) -> ComparedViews:
    """Ask brokers until they agree on these topics (None: on all), at most three times.

    Those that do not answer are not asked again.
    """
    views = _views(cluster, brokers, topics)
    looks = 1
    while True:
        compared = ComparedViews(compare(brokers, views), looks)
        if looks == LOOKS or not compared.may_agree:
            return compared
        looks += 1
        time.sleep(_BETWEEN_LOOKS_S)
        answering = [broker for broker in brokers if isinstance(views[broker.id], Snapshot)]
        views |= _views(cluster, answering, topics)


def _views(
    cluster: Cluster, brokers: Sequence[Broker], topics: Sequence[str] | None
) -> dict[int, Snapshot | KipctlError]:
    request = metadata_request(topics)

    def view(broker: int, connection: BrokerConnection) -> Snapshot:
        answer = connection.request(request)
        # A broker that is behind may not know a topic that was asked for by its name.
        known = tuple(t for t in answer.topics if t.error_code not in _NOT_KNOWN)
        return from_metadata(replace(answer, topics=known))

    return ask_each(cluster, [broker.id for broker in brokers], view, _DEADLINE_S)


def compare(
    brokers: Sequence[Broker], views: Mapping[int, Snapshot | KipctlError]
) -> tuple[ViewOfBroker, ...]:
    """How each broker's view stands to the newest that any broker has.

    A partition's newest view is that of the highest leader epoch, among those what most brokers
    show: a change of its replicas or of the ISR raises no epoch that Metadata would tell.
    """
    answers = {id: view for id, view in views.items() if isinstance(view, Snapshot)}
    newest = _newest(answers.values())
    alive = _most_common(v.broker_ids for v in answers.values()) if answers else ()
    compared = []
    for broker in brokers:
        view = views[broker.id]
        if not isinstance(view, Snapshot):
            compared.append(ViewOfBroker(broker, None, error=view))
            continue
        shown = view.by_id
        differences = tuple(
            Difference(id, partition, shown.get(id))
            for id, partition in newest.items()
            if shown.get(id) != partition
        )
        unseen = tuple(sorted(set(alive) - set(view.broker_ids)))
        extra = tuple(sorted(set(view.broker_ids) - set(alive)))
        compared.append(ViewOfBroker(broker, view, differences, unseen, extra))
    return tuple(compared)


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
