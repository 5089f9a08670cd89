"""Findings about brokers that are away, silent, or behind."""

from collections import Counter
from collections.abc import Iterator

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding, capital, note, problem, warning
from kipctl.counts import broker_list, counted
from kipctl.next_step import Command
from kipctl.protocol.address import Address
from kipctl.transport.address_map import suggested_map


def silent_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    """Listed, and no answer, where that is not this machine's alone."""
    for broker in facts.brokers:
        if broker.no_answer is not None and broker not in facts.unreached_here:
            yield problem(
                "broker-silent",
                f"Broker {broker.id} is listed as alive and does not answer: {broker.no_answer}",
                "Clients of the partitions that it leads wait until the controller fences it.",
                "Look at the broker, and at the network and the listener it advertises.",
            )


def unreached_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    """Listed at addresses that this machine cannot reach: of the cluster that says nothing."""
    if away := facts.unreached_here:
        at = [Address(broker.broker.host, broker.broker.port) for broker in away]
        server = facts.bootstrap or Address("127.0.0.1", at[0].port)
        yield note(
            "brokers-not-reached-from-here",
            f"{capital(broker_list(broker.id for broker in away))} cannot be reached from this"
            f" machine where the cluster lists them, as {at[0]}: {away[0].no_answer}",
            "What they alone can tell is not known, and no change of leaders could be watched; of"
            " the cluster it says nothing.",
            "Behind tunnels say where they are: "
            + Command("inspect brokers", map=suggested_map(at, server)),
        )


def missing_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    """Replicas on brokers that no Metadata lists."""
    alive = set(facts.snapshot.broker_ids)
    held = Counter(r for p in facts.snapshot.partitions for r in facts.replicas(p))
    for dead in sorted(held.keys() - alive):
        yield problem(
            "broker-not-alive",
            f"Broker {dead} is not alive, and {counted(held[dead], 'partition', 'have')} a replica"
            " on it.",
            "They have a replica less than they should; the next broker that stops may stop them.",
            f"Start broker {dead}, or give its replicas to others: "
            + Command("reassign", drain=dead),
        )


def stale_metadata(facts: ClusterFacts) -> Iterator[Finding]:
    """Brokers that do not list each other."""
    everyone = set().union(*(b.lists for b in facts.brokers if b.lists is not None))
    for broker in facts.brokers:
        if broker.lists is not None and (unlisted := everyone - broker.lists):
            yield warning(
                "metadata-behind",
                f"Broker {broker.id} does not list {broker_list(unlisted)}, which others list.",
                "Its Metadata is behind: clients that ask it go to leaders of before.",
                f"Wait and repeat; if it stays, look into the log of broker {broker.id}.",
            )


def exporters(facts: ClusterFacts) -> Iterator[Finding]:
    """Metrics that could not be read, or that are of another cluster."""
    for metrics in facts.metrics:
        if metrics.error is not None:
            yield warning(
                "metrics-not-readable",
                metrics.error.what,
                "That broker's own counts are not shown.",
                metrics.error.next_step,
            )
        elif metrics.broker is not None and metrics.broker not in facts.snapshot.broker_ids:
            yield warning(
                "metrics-of-another-cluster",
                f"{metrics.url} has the metrics of broker {metrics.broker}, which this cluster does"
                " not list.",
                "Its counts have nothing to do with the rest.",
                "Check --metrics-url.",
            )
