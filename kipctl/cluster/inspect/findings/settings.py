"""What a doctor finds in brokers' versions and settings: how a move will be, before it happens."""

from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import SETTINGS, ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding, Severity, brokers, capital
from kipctl.cluster.kafka_release import release_of
from kipctl.protocol.api import ApiKey

METADATA_VERSION = "metadata.version"
FOLLOWER_WAIT_MS = 250
"""A follower's wait that is longer than most clients' own: they find a leader in 100 ms or so."""

DEFAULT_LAG_MS = 30_000
DEFAULT_SESSION_MS = 9_000

_SELECTOR = "replica.selector.class"
_RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def releases(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers of different releases, and features that are not in use yet."""
    newest = {
        broker.id: broker.supported[METADATA_VERSION][1]
        for broker in facts.answering
        if METADATA_VERSION in broker.supported
    }
    exact = {b.id: m.kafka_version for b in facts.brokers if (m := facts.metrics_of(b.id))}
    if len(set(newest.values())) > 1 or len(set(exact.values()) - {None}) > 1:
        reported = ", ".join(
            f"{broker}: {exact.get(broker) or release_of(level) or 'before 3.3'}"
            for broker, level in newest.items()
        )
        yield Finding(
            "releases-differ",
            Severity.WARNING,
            f"Brokers run different releases of Kafka ({reported}).",
            "What a client gets, leader hints for instance, depends on who leads.",
            "Finish the rolling upgrade.",
        )
        return
    in_use = {b.finalized[METADATA_VERSION] for b in facts.answering if b.finalized}
    if newest and in_use and min(in_use) < (level := min(newest.values())):
        yield Finding(
            "feature-level-behind",
            Severity.NOTE,
            f"metadata.version is {min(in_use)} ({release_of(min(in_use)) or 'before 3.3'}), the"
            f" brokers know {level} ({release_of(level)}).",
            "Features of the newer release stay off.",
            f"When no downgrade is planned: kafka-features.sh upgrade --release-version"
            f" {release_of(level)}",
        )


def apis(facts: ClusterFacts) -> Iterator[Finding]:
    """Versions that clients, or kipctl, would need."""

    def older(api: ApiKey, version: int) -> list[int]:
        return [
            broker.id
            for broker in facts.answering
            if broker.api_versions.get(api, (0, -1))[1] < version
        ]

    without_hints = sorted({*older(ApiKey.PRODUCE, 10), *older(ApiKey.FETCH, 16)})
    if without_hints:
        yield Finding(
            "no-leader-hints",
            Severity.WARNING,
            f"{_of(without_hints)} no leader hints (Produce 10, Fetch 16; KIP-951).",
            "A client that comes too late for a leader asks for Metadata and waits out its"
            " backoff, longer still while Metadata is stale.",
            "Upgrade to Kafka 3.7 or newer; then see: kipctl inspect hints",
        )
    if without_rack := older(ApiKey.FETCH, 11):
        yield Finding(
            "no-preferred-read-replica",
            Severity.NOTE,
            f"{_of(without_rack)} no preferred read replica (Fetch 11; KIP-392).",
            "Consumers read from the leader, across racks.",
            "Upgrade to Kafka 2.4 or newer.",
        )
    if without_reassignment := older(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0):
        yield Finding(
            "no-reassignment-api",
            Severity.WARNING,
            f"{_of(without_reassignment)} no AlterPartitionReassignments (KIP-455).",
            "kipctl reassign cannot work through them.",
            "Upgrade to Kafka 2.4 or newer.",
        )


def selector(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers that send consumers nowhere else."""
    reported = [broker.id for broker in facts.answering if _SELECTOR in broker.settings]
    chosen = facts.values(_SELECTOR)
    without = [broker for broker in reported if broker not in chosen]
    in_racks = {broker.rack for broker in facts.snapshot.brokers} - {None}
    if without and (chosen or len(in_racks) > 1):
        yield Finding(
            "replica-selector-not-set",
            Severity.WARNING if chosen else Severity.NOTE,
            f"{capital(brokers(without))}: replica.selector.class is not set.",
            "Of partitions led there consumers read from the leader, also those that name their"
            " rack (KIP-392): traffic crosses racks.",
            f"Set replica.selector.class={_RACK_AWARE}, and restart one after the other.",
        )


def followers(facts: ClusterFacts) -> Iterator[Finding]:
    """Waits of followers, which acks=all writes wait for too."""
    backoff = max(facts.numbers("replica.fetch.backoff.ms").values(), default=0)
    held = max(facts.numbers("replica.fetch.wait.max.ms").values(), default=0)
    lag = facts.numbers("replica.lag.time.max.ms")
    if max(backoff, held) > FOLLOWER_WAIT_MS and len(facts.brokers) > 1:
        yield Finding(
            "follower-backoff",
            Severity.NOTE,
            f"After a move followers may wait {max(backoff, held)} ms before they ask the new"
            f" leader (replica.fetch.backoff.ms {backoff}, replica.fetch.wait.max.ms {held}).",
            "Writes with acks=all stand still as long, whatever the client does.",
            "Lower both, to 200 say, and restart one after the other; followers that have nothing"
            " to fetch then ask more often.",
        )
    if lag and held >= min(lag.values()):
        yield Finding(
            "follower-wait-above-lag",
            Severity.WARNING,
            f"replica.fetch.wait.max.ms ({held}) is not less than replica.lag.time.max.ms"
            f" ({min(lag.values())}).",
            "Followers of topics with little traffic fall out of sync and come back, again and"
            " again.",
            "Set replica.fetch.wait.max.ms much lower; Kafka's default is 500.",
        )
    if lag and max(lag.values()) > DEFAULT_LAG_MS:
        yield Finding(
            "lag-time-long",
            Severity.NOTE,
            f"replica.lag.time.max.ms is {max(lag.values())}.",
            "A follower that falls behind, but is alive, holds up acks=all writes that long.",
            f"Set it to Kafka's default of {DEFAULT_LAG_MS}, unless followers need longer.",
        )


def crashes(facts: ClusterFacts) -> Iterator[Finding]:
    """What happens when a broker goes, on purpose or not."""
    unclean = [b for b, v in facts.values("unclean.leader.election.enable").items() if v == "true"]
    topics = sorted(t for t, reported in facts.topics.items() if reported.unclean_leader_election)
    if unclean or topics:
        where = brokers(unclean) if unclean else f"topic {', '.join(topics[:3])}"
        yield Finding(
            "unclean-election-allowed",
            Severity.WARNING,
            f"unclean.leader.election.enable is true ({where}).",
            "A replica that lacks records may become leader; acknowledged records are lost then.",
            "Set it to false, unless being there counts for more than records.",
        )
    session = facts.numbers("broker.session.timeout.ms")
    beats = facts.numbers("broker.heartbeat.interval.ms")
    tight = [b for b in session if 2 * beats.get(b, 0) > session[b]]
    if tight:
        yield Finding(
            "heartbeat-too-slow",
            Severity.WARNING,
            f"{capital(brokers(tight))}: in broker.session.timeout.ms ({session[tight[0]]}) there"
            f" is no room for two heartbeats (broker.heartbeat.interval.ms {beats[tight[0]]}).",
            "One heartbeat that is late fences a healthy broker, and its leaders move.",
            "Set broker.heartbeat.interval.ms to a third of the session timeout or less.",
        )
    if session and max(session.values()) > DEFAULT_SESSION_MS:
        yield Finding(
            "session-timeout-long",
            Severity.NOTE,
            f"broker.session.timeout.ms is {max(session.values())}.",
            "After a crash the partitions of that broker have no leader so long.",
            f"Set it to Kafka's default of {DEFAULT_SESSION_MS} or lower, on controllers too.",
        )
    abrupt = [b for b, v in facts.values("controlled.shutdown.enable").items() if v == "false"]
    if abrupt:
        yield Finding(
            "controlled-shutdown-off",
            Severity.WARNING,
            f"{capital(brokers(abrupt))}: controlled.shutdown.enable is false.",
            "Every restart is a crash to clients: leaders are not handed over first.",
            "Leave it at true, Kafka's default.",
        )


def placement(facts: ClusterFacts) -> Iterator[Finding]:
    """What becomes of leaders and of new topics unasked."""
    replicas = facts.numbers("default.replication.factor")
    if replicas and min(replicas.values()) == 1 and len(facts.brokers) > 2:
        yield Finding(
            "default-replication-1",
            Severity.NOTE,
            "default.replication.factor is 1.",
            "New topics that do not say otherwise have one replica: their leaders cannot move.",
            "Set it to 3, and restart one after the other.",
        )
    stay = [b for b, v in facts.values("auto.leader.rebalance.enable").items() if v == "false"]
    if stay:
        yield Finding(
            "leader-rebalance-off",
            Severity.NOTE,
            f"{capital(brokers(stay))}: auto.leader.rebalance.enable is false.",
            "After a restart the broker's leaders stay with the others.",
            "After each restart: kipctl elect preferred --all",
        )


def differences(facts: ClusterFacts) -> Iterator[Finding]:
    """Settings that are not the same everywhere, and brokers that do not tell theirs."""
    for setting, decides in SETTINGS.items():
        reported = facts.values(setting)
        if len(set(reported.values())) > 1:
            values = ", ".join(f"{broker}: {value}" for broker, value in reported.items())
            yield Finding(
                "settings-differ",
                Severity.WARNING,
                f"{setting} differs between brokers ({values}).",
                f"It depends on the broker {decides}.",
                "Give all brokers the same.",
            )
    if mute := {b.id: b.settings_error for b in facts.brokers if b.settings_error}:
        why = {error.what.rstrip("."): error.next_step for error in mute.values()}
        yield Finding(
            "settings-not-known",
            Severity.NOTE,
            f"{capital(brokers(mute))} {'does' if len(mute) == 1 else 'do'} not tell settings:"
            f" {', '.join(sorted(why))}.",
            "Nothing is known of them here.",
            next(filter(None, why.values()), "Look into the brokers' logs."),
        )


def exporters(facts: ClusterFacts) -> Iterator[Finding]:
    """Metrics that could not be read, or that are of another cluster."""
    for metrics in facts.metrics:
        if metrics.error is not None:
            yield Finding(
                "metrics-not-readable",
                Severity.WARNING,
                metrics.error.what,
                "That broker's own counts are not shown.",
                metrics.error.next_step,
            )
        elif metrics.broker is not None and metrics.broker not in facts.snapshot.broker_ids:
            yield Finding(
                "metrics-of-another-cluster",
                Severity.WARNING,
                f"{metrics.url} has the metrics of broker {metrics.broker}, which this cluster does"
                " not list.",
                "Its counts have nothing to do with the rest.",
                "Check --metrics-url.",
            )


SETTINGS_RULES = (
    releases,
    apis,
    selector,
    followers,
    crashes,
    placement,
    differences,
    exporters,
)


def _of(ids: list[int]) -> str:
    """ "Broker 1 has", "Brokers 1, 2 have"."""
    return f"{capital(brokers(ids))} {'has' if len(ids) == 1 else 'have'}"
