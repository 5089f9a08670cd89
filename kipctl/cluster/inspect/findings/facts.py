"""The facts that findings are judged by: asked of every broker, changing nothing.

Each broker is asked for its API versions and features (ApiVersions), its settings
(DescribeConfigs), which brokers it lists (Metadata) and its log directories (DescribeLogDirs); the
controller for the reassignments in progress (ListPartitionReassignments). Settings are the broker's
own; a controller decides by its own file, which no broker shows, and which is the same in most
clusters.
"""

import re
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kipctl.at_once import at_once, chunks
from kipctl.cluster.broker_metrics import ALL_TIMEOUT_S, BrokerMetrics, broker_of, scrape
from kipctl.cluster.eligible_leader_replicas import EligibleReplicas, ask_eligible_replicas
from kipctl.cluster.inspect.findings.copy_stalls import Reassignments, ask_reassignments
from kipctl.cluster.log_dirs import broker_dirs, refusal_code
from kipctl.cluster.open_transactions import OpenTransactions, held_up
from kipctl.cluster.recoveries import ask_bytes_to_go, catching_up
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot, from_metadata
from kipctl.cluster.throttle_configs import (
    ALL_RATES,
    DISK_RATE,
    REPLICAS,
    UNLIMITED,
    KnownThrottles,
)
from kipctl.errors import KipctlError, RefusedError, UnreachableError
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import own_api_versions_request
from kipctl.protocol.describe_configs import DescribeConfigsResult, ResourceType, configs_request
from kipctl.protocol.describe_log_dirs import DescribeLogDirsRequest
from kipctl.protocol.error_codes import error_name, error_text
from kipctl.protocol.message import only
from kipctl.protocol.metadata import metadata_request
from kipctl.transport.access import Access
from kipctl.transport.acl_errors import denial
from kipctl.transport.each_broker import ask_each
from kipctl.transport.product import Product, product_of
from kipctl.transport.request import BrokerConnection, Cluster
from kipctl.urls import without_login

SETTINGS = {
    "replica.selector.class": "which replica consumers with a client.rack read from (KIP-392)",
    "replica.fetch.backoff.ms": "how long a follower that asked a leader too early waits",
    "replica.fetch.wait.max.ms": "how long a leader holds a follower's fetch when it has no data",
    "replica.lag.time.max.ms": "how long a follower that falls behind holds up acks=all writes",
    "min.insync.replicas": "how many replicas an acks=all write takes, in topics without their own",
    "default.replication.factor": "how many replicas a new topic has that does not say",
    "unclean.leader.election.enable": "whether a replica that lacks records may become leader",
    "auto.leader.rebalance.enable": "whether leaders go back to their preferred replica unasked",
    "leader.imbalance.check.interval.seconds": "how often that is looked at",
    "broker.session.timeout.ms": "how long a broker that crashed still counts as leader",
    "broker.heartbeat.interval.ms": "how often a broker tells the controller that it is alive",
    "controlled.shutdown.enable": "whether a broker that stops hands its leaders over first",
}
"""Broker settings that decide how much a move hurts, and what each decides."""

_LOOKS = 3
_TOPIC_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable", "diskless.enable")
LOOK_AGAIN_S = 12.0
"""A throttled broker may copy nothing for 11 s, the samples of its quota, and go on then."""
_TOPICS_AT_ONCE = 500
"""Whose settings one request asks for: an answer of thousands takes a broker seconds."""
_DEADLINE_S = 30.0
"""For all brokers together."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker; `error` is Kafka's name of why it has failed, if it has."""

    path: str
    error: str | None = None
    is_cordoned: bool = False


class Unreached(StrEnum):
    """What came in the way of a connection to a broker, if it was that."""

    NAME = "name"
    """This machine does not know the name of its host."""
    CONNECTION = "connection"

    @classmethod
    def of(cls, error: KipctlError) -> "Unreached | None":
        if not isinstance(error, UnreachableError):
            return None
        is_name = isinstance(error.__cause__, socket.gaierror)
        return Unreached.NAME if is_name else Unreached.CONNECTION


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """One broker. What it did not report is empty or None; `no_answer` then says why, `unreached`
    if there was no connection to it.

    `api_versions` are (lowest, highest) by API key, `supported` the same by feature; `finalized`
    are the levels in use. `lists` are the brokers in its own Metadata. `throttles` are the rates in
    bytes per second that hold back replication there, by config, and `throttles_from` where each is
    set (ConfigSource), the one that holds first.
    """

    broker: Broker
    api_versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str | None] = field(default_factory=dict)
    settings_error: KipctlError | None = None
    lists: frozenset[int] | None = None
    no_answer: str | None = None
    unreached: Unreached | None = None
    throttles: Mapping[str, int] = field(default_factory=dict)
    throttles_from: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    directories: tuple[LogDir, ...] = ()
    may_copy_between_disks: bool = True
    """False where a rate for it is set, and the broker tells that it copies nothing."""
    directories_error: str | None = None

    @property
    def id(self) -> int:
        return self.broker.id


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The settings of a topic, its own or what it has from the brokers; None when not known.

    `throttled` are its lists of throttled replicas, by config.
    """

    min_insync_replicas: int | None = None
    unclean_leader_election: bool | None = None
    throttled: Mapping[str, str] = field(default_factory=dict)
    diskless: bool = False
    """Its data is in an object store, and no replica has it (KIP-1150)."""


@dataclass(frozen=True, slots=True)
class MetricsFacts:
    """One exporter, before the command's requests to the brokers and after them.

    `own` are the requests that the command itself sent to that broker in between, by API and
    version; None when it is not known which broker that is. `error` says why there are no counts.
    """

    url: str
    broker: int | None = None
    before: BrokerMetrics | None = None
    after: BrokerMetrics | None = None
    own: Mapping[tuple[str, int], int] | None = None
    error: KipctlError | None = None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All of it; brokers in the order of their ids.

    A topic whose settings are not known is not in `topics`; `topics_error` says why of the first.
    `eligible` are the eligible leader replicas of partitions that have no leader, or fewer replicas
    in sync than `min.insync.replicas`. `bytes_to_go` is what each broker lacks of partitions of
    throttled topics in which it is out of sync. `known_throttles` are those that kipctl here has
    set, `bootstrap_server` is the address that leads to the cluster.
    """

    snapshot: Snapshot
    brokers: tuple[BrokerFacts, ...]
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    metrics: tuple[MetricsFacts, ...] = ()
    topics_error: KipctlError | None = None
    copying: Reassignments = field(default_factory=Reassignments)
    eligible: Mapping[PartitionId, EligibleReplicas] = field(default_factory=dict)
    bytes_to_go: Mapping[int, int] = field(default_factory=dict)
    known_throttles: KnownThrottles = field(default_factory=KnownThrottles)
    bootstrap_server: str = ""
    bootstrap: Address | None = None
    """The first server that was asked, and that is at no broker's address."""
    is_secured: bool = False
    """Whether Kafka's own tools need a file to connect with."""
    transactions: OpenTransactions = field(default_factory=OpenTransactions)
    """Those that hold up readers with read_committed."""

    @property
    def unreached_here(self) -> tuple[BrokerFacts, ...]:
        """The brokers that are away for this machine alone, as behind tunnels: those whose names it
        does not know, and all, if it reaches none but the server that has listed them."""
        if self.bootstrap is not None and all(broker.unreached for broker in self.brokers):
            return self.brokers
        return tuple(broker for broker in self.brokers if broker.unreached is Unreached.NAME)

    @property
    def answering(self) -> tuple[BrokerFacts, ...]:
        return tuple(broker for broker in self.brokers if broker.no_answer is None)

    @property
    def product(self) -> Product:
        """Which one answers, as far as its answers tell."""
        hosts = [broker.host for broker in self.snapshot.brokers]
        apis = {key for broker in self.answering for key in broker.api_versions}
        return product_of(self.snapshot.cluster_id, hosts, apis)

    def values(self, setting: str) -> dict[int, str]:
        """A setting by broker; those are left out that do not have it, or where it is empty."""
        reported = ((broker.id, broker.settings.get(setting)) for broker in self.brokers)
        return {broker: value for broker, value in reported if value}

    def numbers(self, setting: str) -> dict[int, int]:
        """As `values`, of a setting that is a whole number."""
        every = ((broker, whole_number(text)) for broker, text in self.values(setting).items())
        return {broker: number for broker, number in every if number is not None}

    def min_insync_replicas(self, partition: Partition) -> int | None:
        """What holds for the partition; None when it is not known."""
        topic = self.topics.get(partition.id.topic)
        return topic.min_insync_replicas if topic else None

    def adding(self, partition: Partition) -> tuple[int, ...]:
        """The brokers that a reassignment is about to add to the partition's replicas."""
        return self.copying.adding.get(partition.id, ())

    def replicas(self, partition: Partition) -> tuple[int, ...]:
        """The partition's replicas without those, which Metadata lists among them while they are
        copied: they can neither lead nor stand in for another."""
        adding = self.adding(partition)
        return tuple(broker for broker in partition.replicas if broker not in adding)

    @property
    def below_min_insync(self) -> tuple[Partition, ...]:
        """Partitions with a leader, and with fewer replicas in sync than acks=all takes."""
        return tuple(
            p
            for p in self.snapshot.partitions
            if p.leader >= 0 and len(p.isr) < (self.min_insync_replicas(p) or 0)
        )

    def topics_with(self, holds: Callable[[Partition], bool]) -> list[str]:
        """Topics with a partition for which it holds, sorted."""
        return sorted({p.id.topic for p in self.snapshot.partitions if holds(p)})

    def metrics_of(self, broker: int) -> BrokerMetrics | None:
        """The newest counts of a broker, if its exporter was asked."""
        return next((m.after or m.before for m in self.metrics if m.broker == broker), None)


def collect_facts(
    cluster: Cluster, metrics_urls: Sequence[str] = (), look_again_s: float = LOOK_AGAIN_S
) -> ClusterFacts:
    """Ask everybody; while data is being reassigned look again after so many seconds (0: do not).

    Raises UnreachableError when no broker answers, and what `scrape` raises when none of the URLs
    leads to metrics.
    """
    snapshot = from_metadata(cluster.metadata())
    before = at_once(scrape, metrics_urls, ALL_TIMEOUT_S)
    errors = [answer for answer in before if isinstance(answer, KipctlError)]
    if errors and len(errors) == len(before):
        raise errors[0]
    sent = {broker: Counter(cluster.broker(broker).sent) for broker in snapshot.broker_ids}
    topics, topics_error = ask_topics(cluster, snapshot.topics)
    brokers = _ask_brokers(cluster, snapshot.brokers)
    copying = ask_reassignments(cluster, look_again_s)
    at = {Address(broker.host, broker.port) for broker in snapshot.brokers}
    throttled = {topic for topic, settings in topics.items() if settings.throttled}
    behind = {
        broker: held
        for broker, partitions in catching_up(snapshot, copying.adding).items()
        if (held := tuple(partition for partition in partitions if partition.topic in throttled))
    }
    facts = ClusterFacts(
        snapshot,
        brokers,
        topics,
        (),
        topics_error,
        copying,
        bytes_to_go=ask_bytes_to_go(cluster, snapshot, behind) if behind else {},
        bootstrap_server=str(cluster.access),
        bootstrap=next((server for server in cluster.bootstrap if server not in at), None),
        is_secured=cluster.access.is_secured,
    )
    in_need = {p.id.topic for p in (*snapshot.leaderless, *facts.below_min_insync)}
    eligible = ask_eligible_replicas(cluster, in_need) if in_need else {}
    answering = {broker.id for broker in facts.answering}
    led = (p for p in snapshot.partitions if p.leader in answering)
    transactions = held_up(cluster, led).transactions
    own = {b: cluster.broker(b).sent - was for b, was in sent.items() if b in cluster.nodes}
    first = [
        _first_look(*asked, snapshot.brokers, own)
        for asked in zip(metrics_urls, before, strict=True)
    ]
    looks = list(zip(metrics_urls, first, strict=True))
    metrics = tuple(
        replace(exporter, error=after, own=None)
        if isinstance(after, KipctlError)
        else replace(exporter, after=after)
        for exporter, after in zip(first, at_once(_counts_again, looks, ALL_TIMEOUT_S), strict=True)
    )
    return replace(facts, metrics=metrics, eligible=eligible, transactions=transactions)


def _first_look(
    url: str,
    before: BrokerMetrics | KipctlError,
    brokers: Sequence[Broker],
    own: Mapping[int, Mapping[tuple[str, int], int]],
) -> MetricsFacts:
    if isinstance(before, KipctlError):
        return MetricsFacts(without_login(url), error=before)
    broker = broker_of(before, brokers)
    sent = None if broker is None else own.get(broker)
    return MetricsFacts(before.url, broker, before, own=sent)


def _counts_again(asked: tuple[str, MetricsFacts]) -> BrokerMetrics:
    """A request is counted a moment after its answer: look again if one of our own is missing."""
    url, facts = asked
    if facts.error is not None:
        raise facts.error
    assert facts.before is not None
    for _ in range(_LOOKS):
        after = scrape(url)
        new = Counter(after.requests) - Counter(facts.before.requests)
        if new >= Counter(facts.own or {}):
            break
    return after


def _ask_brokers(cluster: Cluster, brokers: Sequence[Broker]) -> tuple[BrokerFacts, ...]:
    """Ask all at once: a broker that hangs does not delay the others."""
    by_id = {broker.id: broker for broker in brokers}
    asked = ask_each(
        cluster, by_id, lambda id, connection: _ask_broker(by_id[id], connection), _DEADLINE_S
    )
    return tuple(
        BrokerFacts(by_id[id], no_answer=facts.what, unreached=Unreached.of(facts))
        if isinstance(facts, KipctlError)
        else facts
        for id, facts in asked.items()
    )


def _ask_broker(broker: Broker, connection: BrokerConnection) -> BrokerFacts:
    versions = connection.request(own_api_versions_request())
    metadata = connection.request(metadata_request(()))
    settings, rates_from, settings_error = _settings(connection, broker.id)
    moves = bool(rates_from.get(DISK_RATE))
    directories, may_copy, directories_error = _directories(connection, with_replicas=moves)
    if versions.error_code:
        return BrokerFacts(broker, no_answer=f"ApiVersions: {error_text(versions.error_code)}.")
    return BrokerFacts(
        broker,
        api_versions={api.api_key: (api.min_version, api.max_version) for api in versions.api_keys},
        supported={f.name: (f.min_version, f.max_version) for f in versions.supported_features},
        finalized={f.name: f.max_version_level for f in versions.finalized_features},
        settings={name: value for name, value in settings.items() if name not in ALL_RATES},
        settings_error=settings_error,
        lists=frozenset(listed.node_id for listed in metadata.brokers),
        throttles={
            name: rate
            for name in ALL_RATES
            if (rate := whole_number(settings.get(name))) is not None and rate < UNLIMITED
        },
        throttles_from=rates_from,
        directories=directories,
        may_copy_between_disks=may_copy,
        directories_error=directories_error,
    )


def whole_number(text: str | None) -> int | None:
    """A setting's number; None for what is none, as other products may have it."""
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,19}", text) else None


def _settings(
    connection: BrokerConnection, broker: int
) -> tuple[dict[str, str | None], dict[str, tuple[int, ...]], KipctlError | None]:
    """The broker's settings, where its rates are set, or why it does not report them."""
    names = (*SETTINGS, *ALL_RATES)
    asked = configs_request(ResourceType.BROKER, [str(broker)], names, include_synonyms=True)
    result = only(connection.request(asked).results)
    rates_from = {name: sources for name, sources in result.sources.items() if name in ALL_RATES}
    return result.values, rates_from, _refused(result, connection.access)


def _refused(result: DescribeConfigsResult, access: Access) -> KipctlError | None:
    """Why settings are refused; None if they are not."""
    if not result.error_code:
        return None
    is_topic = result.resource_type == ResourceType.TOPIC
    topic = result.resource_name if is_topic else ""
    denied = denial(result.error_code, ApiKey.DESCRIBE_CONFIGS, access, topic)
    return denied or RefusedError(f"{error_text(result.error_code)}.")


def _directories(
    connection: BrokerConnection, *, with_replicas: bool
) -> tuple[tuple[LogDir, ...], bool, str | None]:
    """The broker's log directories, whether it may copy between them, which takes asking for its
    replicas, and why it does not report them."""
    try:
        topics = None if with_replicas else ()
        answer = connection.request(DescribeLogDirsRequest(topics=topics))
    except KipctlError as error:
        return (), True, error.what
    if code := refusal_code(answer):
        return (), True, error_name(code)
    directories = tuple(
        LogDir(at.log_dir, error_name(at.error_code) if at.error_code else None, at.is_cordoned)
        for at in answer.results
    )
    has_future = any(replica.future for replica in broker_dirs(answer).replicas.values())
    return directories, has_future, None


def ask_topics(
    cluster: Cluster, topics: Sequence[str]
) -> tuple[dict[str, TopicFacts], KipctlError | None]:
    """The settings of topics, asked for in chunks, and why some are missing, if any are.

    After a chunk that no broker answers no other is asked for.
    """
    facts: dict[str, TopicFacts] = {}
    why: KipctlError | None = None
    for some in chunks(topics, _TOPICS_AT_ONCE):
        asked = configs_request(ResourceType.TOPIC, some, (*_TOPIC_SETTINGS, *REPLICAS))
        try:
            results = cluster.any_broker().request(asked).results
        except KipctlError as error:
            return facts, why or error
        for result in results:
            values = result.values
            least, unclean, diskless = (values.get(setting) for setting in _TOPIC_SETTINGS)
            if result.error_code:
                why = why or _refused(result, cluster.access)
            else:
                facts[result.resource_name] = TopicFacts(
                    whole_number(least),
                    unclean == "true" if unclean else None,
                    {name: listed for name in REPLICAS if (listed := values.get(name))},
                    diskless == "true",
                )
    return facts, why
