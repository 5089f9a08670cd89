"""Findings about brokers' settings: how a move will be, before it happens."""

from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import SETTINGS, ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding, capital, note, warning
from kipctl.counts import broker_list
from kipctl.next_step import Command

FOLLOWER_WAIT_MS = 250
"""A follower's wait that is longer than most clients' own: they find a leader in 100 ms or so."""
DEFAULT_LAG_MS = 30_000
DEFAULT_SESSION_MS = 9_000


def followers(facts: ClusterFacts) -> Iterator[Finding]:
    """Waits of followers, which acks=all writes wait for too."""
    backoff = max(facts.numbers("replica.fetch.backoff.ms").values(), default=0)
    held = max(facts.numbers("replica.fetch.wait.max.ms").values(), default=0)
    lag = facts.numbers("replica.lag.time.max.ms")
    if max(backoff, held) > FOLLOWER_WAIT_MS and len(facts.brokers) > 1:
        yield note(
            "follower-backoff",
            f"After a move followers may wait {max(backoff, held)} ms before they ask the new"
            f" leader (replica.fetch.backoff.ms {backoff}, replica.fetch.wait.max.ms {held}).",
            "Writes with acks=all stand still as long, whatever the client does.",
            "Lower both, to 200 say, and restart one after the other; followers that have nothing"
            " to fetch then ask more often.",
        )
    if lag and held >= min(lag.values()):
        yield warning(
            "follower-wait-above-lag",
            f"replica.fetch.wait.max.ms ({held}) is not less than replica.lag.time.max.ms"
            f" ({min(lag.values())}).",
            "Followers of topics with little traffic fall out of sync and come back, again and"
            " again.",
            "Set replica.fetch.wait.max.ms much lower; Kafka's default is 500.",
        )
    if lag and max(lag.values()) > DEFAULT_LAG_MS:
        yield note(
            "lag-time-long",
            f"replica.lag.time.max.ms is {max(lag.values())}.",
            "A follower that falls behind, but is alive, holds up acks=all writes that long.",
            f"Set it to Kafka's default of {DEFAULT_LAG_MS}, unless followers need longer.",
        )


def crashes(facts: ClusterFacts) -> Iterator[Finding]:
    """What happens when a broker goes, on purpose or not."""
    unclean = [b for b, v in facts.values("unclean.leader.election.enable").items() if v == "true"]
    topics = sorted(t for t, reported in facts.topics.items() if reported.unclean_leader_election)
    if unclean or topics:
        where = broker_list(unclean) if unclean else f"topic {', '.join(topics[:3])}"
        yield warning(
            "unclean-election-allowed",
            f"unclean.leader.election.enable is true ({where}).",
            "A replica that lacks records may become leader; acknowledged records are lost then.",
            "Set it to false, unless being there counts for more than records.",
        )
    session = facts.numbers("broker.session.timeout.ms")
    beats = facts.numbers("broker.heartbeat.interval.ms")
    tight = [b for b in session if 2 * beats.get(b, 0) > session[b]]
    if tight:
        yield warning(
            "heartbeat-too-slow",
            f"{capital(broker_list(tight))}: in broker.session.timeout.ms ({session[tight[0]]})"
            " there"
            f" is no room for two heartbeats (broker.heartbeat.interval.ms {beats[tight[0]]}).",
            "One heartbeat that is late fences a healthy broker, and its leaders move.",
            "Set broker.heartbeat.interval.ms to a third of the session timeout or less.",
        )
    if session and max(session.values()) > DEFAULT_SESSION_MS:
        yield note(
            "session-timeout-long",
            f"broker.session.timeout.ms is {max(session.values())}.",
            "After a crash the partitions of that broker have no leader so long.",
            f"Set it to Kafka's default of {DEFAULT_SESSION_MS} or lower, on controllers too.",
        )
    abrupt = [b for b, v in facts.values("controlled.shutdown.enable").items() if v == "false"]
    if abrupt:
        yield warning(
            "controlled-shutdown-off",
            f"{capital(broker_list(abrupt))}: controlled.shutdown.enable is false.",
            "Every restart is a crash to clients: leaders are not handed over first.",
            "Leave it at true, Kafka's default.",
        )


def placement(facts: ClusterFacts) -> Iterator[Finding]:
    """What brokers do with leaders, and with new topics, by themselves."""
    replicas = facts.numbers("default.replication.factor")
    if replicas and min(replicas.values()) == 1 and len(facts.brokers) > 2:
        yield note(
            "default-replication-1",
            "default.replication.factor is 1.",
            "New topics that do not say otherwise have one replica: their leaders cannot move.",
            "Set it to 3, and restart one after the other.",
        )
    stay = [b for b, v in facts.values("auto.leader.rebalance.enable").items() if v == "false"]
    if stay:
        yield note(
            "leader-rebalance-off",
            f"{capital(broker_list(stay))}: auto.leader.rebalance.enable is false.",
            "After a restart the broker's leaders stay with the others.",
            "After each restart: "
            + Command("elect preferred --all --until balanced")
            + ". It waits until the broker has copied all that it missed.",
        )


def differences(facts: ClusterFacts) -> Iterator[Finding]:
    """Settings that are not the same everywhere, and brokers that do not report theirs."""
    for setting, decides in SETTINGS.items():
        reported = facts.values(setting)
        if len(set(reported.values())) > 1:
            values = ", ".join(f"{broker}: {value}" for broker, value in reported.items())
            yield warning(
                "settings-differ",
                f"{setting} differs between brokers ({values}).",
                f"It depends on the broker {decides}.",
                "Give all brokers the same.",
            )
    if mute := {b.id: b.settings_error for b in facts.brokers if b.settings_error}:
        why = {error.what.rstrip("."): error.next_step for error in mute.values()}
        yield note(
            "settings-not-known",
            f"{capital(broker_list(mute, 'do'))} not report settings: {', '.join(sorted(why))}.",
            "Nothing is known of them here.",
            next(filter(None, why.values()), "Look into the brokers' logs."),
        )
