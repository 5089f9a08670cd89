"""Who leads, as far as this client knows: Metadata asked for and taken, hints taken."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from kipctl.counts import counted
from kipctl.probe.backoff import retry_backoff
from kipctl.probe.broker_link import BrokerLink
from kipctl.probe.config import ClientConfig
from kipctl.probe.idle_eviction import TopicsInUse
from kipctl.probe.leadership import (
    NO_EPOCH,
    ClientPartition,
    KnownLeader,
    Leader,
    LeaderDiscovery,
    Leadership,
    Node,
)
from kipctl.probe.metadata_refresh import NEVER_US, MetadataPolicy
from kipctl.probe.network import AnyLink, Network
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.leader_hints import LeaderHint
from kipctl.protocol.message import ZERO_UUID
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker, metadata_request
from kipctl.protocol.metadata_frames import PartitionMetadata, TopicMetadata, read_metadata
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.codes import Decision, MetadataCause
from kipctl.transport.loop_connection import ConnectionLostError, InFlight

NO_ROW = -1
_FIRST_WITH_EPOCHS_TO_TRUST = 9
"""Brokers that speak no newer Metadata may show epochs that are not those of the leaders shown
(KAFKA-9212; Java's `MetadataResponse.hasReliableLeaderEpochs`)."""


@dataclass(slots=True)
class MetadataCall:
    """A Metadata request."""

    cause: MetadataCause
    link: BrokerLink
    connection: int
    flight: InFlight
    topics: tuple[str, ...] = ()
    received_us: int = 0
    response_bytes: int = 0
    behind_us: int = 0
    """How long it stood behind other requests on its connection."""
    error: int = 0
    row: int = NO_ROW
    """Its number in the trace, once it is answered or lost."""


AnyPartition = TypeVar("AnyPartition", bound=ClientPartition)


class MetadataUpdater(Generic[AnyPartition, AnyLink]):
    """Carries out the rules of `leadership` and `metadata_policy` for one client's topics."""

    def __init__(
        self,
        config: ClientConfig,
        discovery: LeaderDiscovery,
        partitions: Mapping[str, Sequence[AnyPartition]],
        network: Network[AnyLink],
        tracing: Tracing,
        on_leader_changed: Callable[[AnyPartition], None],
        on_recreated: Callable[[Sequence[AnyPartition]], None],
        bootstrap: Iterable[Address] = (),
        topics_in_use: TopicsInUse | None = None,
    ) -> None:
        """`partitions`, `bootstrap` and `topics_in_use` are those of `ProbeClient`.

        `on_leader_changed` is told of a partition that has a new leader, one that can be reached
        again, or, its topic being idle, none; `on_recreated` of those whose topic was deleted and
        made anew: its logs are empty, and have had no producer.
        """
        self._network = network
        self._tracing = tracing
        self._on_leader_changed = on_leader_changed
        self._on_recreated = on_recreated
        self._partitions = partitions
        self._topics_in_use = topics_in_use
        self._leadership: Leadership[AnyPartition] = Leadership(discovery)
        self.epoch = self._leadership.epoch
        """The newest leader epoch known of a partition; -1 for none."""
        self.hinted_elsewhere = self._leadership.hinted_elsewhere
        backoff = retry_backoff(
            discovery, config.retry_backoff_ms * 1000, config.retry_backoff_max_ms * 1000
        )
        self._bootstrap = [
            Node(-number, host, port) for number, (host, port) in enumerate(bootstrap, 1)
        ]
        self._rebootstrap_us = config.metadata_recovery_rebootstrap_trigger_ms * 1000
        self._policy = MetadataPolicy(discovery, backoff, config.metadata_max_age_ms * 1000)
        self._generations: dict[str, dict[UUID, int]] = {}
        self.topic_changes: dict[str, int] = {}
        """What has become of topics, in words, and when it was first seen."""
        self._in_flight: MetadataCall | None = None
        self.calls: list[MetadataCall] | None = None
        """The Metadata requests sent from when this is a list on."""
        self.due_us = NEVER_US
        """When the next Metadata request is due; NEVER_US while one is in flight."""
        self.wake_us = NEVER_US
        """The same, but NEVER_US where one is due that no connection takes: it is to be asked for
        at every turn."""

    def _update_due(self) -> None:
        """Something has changed that says when the next request is due."""
        self.due_us = self.wake_us = self._policy.due_us(self._new_topics)

    @property
    def _new_topics(self) -> MetadataCause | None:
        return self._topics_in_use.new_topics if self._topics_in_use else None

    def set_max_age(self, max_age_us: int, now_us: int) -> None:
        """Another `metadata.max.age.ms`, in microseconds, counted from now."""
        self._policy.max_age_us, self._policy.refreshed_us = max_age_us, now_us
        self._update_due()

    @property
    def is_updating(self) -> bool:
        """A Metadata request is in flight, or one is wanted."""
        policy = self._policy
        return policy.in_flight is not None or policy.requested is not None

    def link(self, partition: AnyPartition) -> AnyLink | None:
        """The link to the partition's leader, None while there is none."""
        leader = self._leadership.leader(partition)
        if leader is None:
            return None
        return self._network.link(self._leadership.nodes[leader.id])

    @property
    def nodes(self) -> Mapping[int, Node]:
        """The brokers known, by id."""
        return self._leadership.nodes

    def has_leader(self, partition: AnyPartition) -> bool:
        return self._leadership.leader(partition) is not None

    def request_update(self, cause: MetadataCause) -> None:
        """Ask for a Metadata refresh; nobody waits for it here."""
        self._policy.request(cause)
        self._update_due()

    def use_topic(self, topic: str, now_us: int) -> bool:
        """A record is for this topic of the working set; returns whether its leaders are known.

        If not they are asked for. Without a working set all topics are used all the time.
        """
        if self._topics_in_use is None:
            return True
        is_known = self._topics_in_use.use(topic, now_us)
        if not is_known:
            self._update_due()
        return is_known

    def apply_first(self, response: MetadataResponse, version: int, now_us: int) -> None:
        """Take the Metadata answer, of that version, that the run starts with."""
        topics = [
            TopicMetadata(
                t.error_code,
                t.name or "",
                t.topic_id.bytes,
                [
                    PartitionMetadata(p.error_code, p.partition_index, p.leader_id, p.leader_epoch)
                    for p in t.partitions
                ],
            )
            for t in response.topics
        ]
        _, lacks_leader = self._apply(response.brokers, topics, version, None, now_us)
        if self._topics_in_use:
            for topic in topics:
                self._topics_in_use.use(topic.name, now_us)
            self._update_topics_in_use(self._topics_in_use, topics, now_us)
        self._policy.answered(now_us, news=True)
        if lacks_leader:
            self._policy.request(MetadataCause.LEADER_CHANGE)
        self._update_due()

    def send_due_request(self, now_us: int) -> None:
        """Send the Metadata request that is due, over the least loaded of the connections.

        It is to be called at every turn from `due_us` on, before anything else is sent: whoever
        waits for a leader waits for this (Java's `NetworkClient.isReady`: Metadata comes first).
        """
        if now_us - self._policy.unanswered_since_us > self._rebootstrap_us:
            self._rebootstrap()
        link = self._network.least_loaded()
        if link is None:
            self.wake_us = NEVER_US
            nodes = [*self._leadership.nodes.values()]
            if self._network.are_unreachable(nodes):
                nodes += self._bootstrap  # (KIP-899)
            self._network.connect_one_more(nodes)
            return
        assert link.connection is not None
        cause, lost = self._policy.sent(now_us, self._new_topics), False
        topics = tuple(self._partitions)
        if self._topics_in_use:
            topics = self._topics_in_use.topics_to_request(cause)
        try:
            link.send_message(metadata_request(topics), link.metadata_version, now_us)
        except ConnectionLostError:
            lost = True
        flight = link.connection.in_flight[-1]
        self._in_flight = MetadataCall(cause, link, link.connection.number, flight, topics)
        self._update_due()
        flight.subject = self._in_flight
        if self.calls is not None:
            self.calls.append(self._in_flight)
        if lost:
            self._network.disconnect(link)  # it comes back to `lost`, as what was sent before it

    def _rebootstrap(self) -> None:
        """Ask the bootstrap servers: no Metadata came for too long, or a broker has said so
        (KIP-1102).
        """
        if self._bootstrap:
            self._policy.unanswered_since_us = NEVER_US
            self._leadership.nodes = {node.id: node for node in self._bootstrap}
            for link in self._network.links:
                if link.connection is not None:
                    self._network.disconnect(link)

    def handle_response(
        self, flight: InFlight, frame: memoryview, now_us: int, behind_us: int
    ) -> None:
        """Take a Metadata answer. Raises MalformedFrame."""
        response = read_metadata(flight.api_version, frame)
        call: MetadataCall = flight.subject
        call.received_us, call.response_bytes = now_us, len(frame) + 4
        call.behind_us = behind_us
        call.error = next((t.error_code for t in response.topics if t.error_code), 0)
        self._network.throttle(call.link, flight, response.throttle_time_ms, now_us)
        self._write(call)
        news, lacks_leader = self._apply(
            response.brokers, response.topics, flight.api_version, call, now_us
        )
        of_all = True
        if self._topics_in_use:
            of_all = self._topics_in_use.is_for_all(call.cause)
            self._update_topics_in_use(self._topics_in_use, response.topics, now_us)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._policy.failed(now_us)
            self._rebootstrap()
        elif call.error or not response.brokers:
            self._policy.failed(now_us, bool(response.brokers))
        else:
            self._policy.answered(now_us, news, of_all)
        if lacks_leader:
            self._policy.request(MetadataCause.LEADER_CHANGE)
        self._update_due()

    def _update_topics_in_use(
        self, in_use: TopicsInUse, topics: Sequence[TopicMetadata], now_us: int
    ) -> None:
        """Topics that the answer shows are known; idle ones are forgotten, leaders and all."""
        shown = [topic.name for topic in topics if not topic.error_code]
        refused = [topic.name for topic in topics if topic.error_code]
        for topic in in_use.answered(shown, refused, now_us):
            self._leadership.forget(self._partitions[topic])
            for partition in self._partitions[topic]:
                self._on_leader_changed(partition)

    def handle_disconnect(self, call: MetadataCall, now_us: int) -> None:
        """The connection of a Metadata request was lost."""
        call.error = ErrorCode.NETWORK_EXCEPTION
        self._write(call)
        self._policy.failed(now_us)
        self._update_due()

    def apply_hint(self, partition: AnyPartition, hint: LeaderHint, now_us: int) -> Decision:
        """Take the hint of a leader error, if the rules allow it."""
        decision = self._leadership.apply_hint(partition, hint)
        if decision is Decision.FOLLOWED:
            self._leaders_changed([partition], None, now_us)
        return decision

    def _apply(
        self,
        brokers: Iterable[MetadataResponseBroker],
        topics: Iterable[TopicMetadata],
        version: int,
        call: MetadataCall | None,
        now_us: int,
    ) -> tuple[bool, bool]:
        """Returns whether any leader changed, and whether one of the topics shown is lacking."""
        leaders, shown = {}, list[AnyPartition]()
        for topic in topics:
            of_topic = self._partitions.get(topic.name, ())
            if topic.error_code or not of_topic:
                continue
            self._check_topic_id(of_topic, topic, now_us)
            shown += of_topic
            for _, index, leader, epoch in topic.partitions:
                if index < len(of_topic):
                    is_trusted = version >= _FIRST_WITH_EPOCHS_TO_TRUST
                    leaders[of_topic[index]] = Leader(leader, epoch if is_trusted else NO_EPOCH)
        nodes = [Node(b.node_id, b.host, b.port, b.rack) for b in brokers]
        changed = self._leadership.apply_metadata(nodes, leaders)
        self._network.update_addresses(self._leadership.nodes)
        self._leaders_changed(changed, call, now_us)
        return bool(changed), self._leadership.any_without_leader(shown)

    def _check_topic_id(
        self, of_topic: Sequence[AnyPartition], shown: TopicMetadata, now_us: int
    ) -> None:
        """See whether it is still the same topic. With another id it is a new one of that name,
        and its epochs start again (Java's `Metadata.updateLatestMetadata`, KAFKA-12257). Brokers
        that hear late show the old one for a while, or one between: the last that is shown counts.
        """
        known = of_topic[0].topic
        shown_id = UUID(bytes=shown.topic_id)
        if ZERO_UUID not in (known.id, shown_id) and known.id != shown_id:
            anew = Topic(known.name, shown_id)
            self._leadership.forget(of_topic)
            generations = self._generations.setdefault(known.name, {known.id: 0})
            generation = generations.setdefault(shown_id, len(generations))
            for partition in of_topic:
                partition.topic, partition.generation = anew, generation
            self._on_recreated(of_topic)
            self.topic_changes.setdefault(f"{known.name} was deleted and made anew", now_us)
        if len(shown.partitions) > len(of_topic):
            grown = (
                f"{known.name} grew from {len(of_topic)} to"
                f" {counted(len(shown.partitions), 'partition')}"
            )
            self.topic_changes.setdefault(f"{grown} (the new ones are not used)", now_us)

    def _leaders_changed(
        self, partitions: Iterable[AnyPartition], call: MetadataCall | None, now_us: int
    ) -> None:
        for partition in partitions:
            epoch = self._leadership.epoch(partition)
            partition.learn(KnownLeader(epoch, partition.generation, now_us, call))
            self._on_leader_changed(partition)

    def write_unanswered(self) -> None:
        """At the end: write the request that is still in flight."""
        if self._in_flight:
            self._write(self._in_flight)

    def _write(self, call: MetadataCall) -> None:
        self._in_flight = None
        call.row = self._tracing.rpc(
            call.link.node.id,
            call.connection,
            call.flight,
            call.received_us,
            call.response_bytes,
            call.behind_us,
            len(call.topics),
            call.error,
            call.cause,
        )
