"""What `kipctl inspect brokers` prints."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kipctl.counts import counted, first_few
from kipctl.next_step import Command
from kipctl.protocol.address import host_port
from kipctl.protocol.describe_configs import ConfigSource
from kipctl.report.leader_tables import Value, listing
from kipctl.report.tables import Column, Paragraph, Report, Table, Tone
from kipctl.transport.product import Product

if TYPE_CHECKING:
    from kipctl.cluster.broker_metrics import BrokerMetrics
    from kipctl.cluster.inspect.findings.facts import BrokerFacts, ClusterFacts, MetricsFacts
    from kipctl.cluster.inspect.findings.finding import Finding
    from kipctl.cluster.snapshot import PartitionId

COUNTED = {
    "Metadata": "Metadata",
    "Produce": "Produce",
    "FetchConsumer": "Fetch",
    "FetchFollower": None,
}
"""The requests that are shown, and what kipctl sends of the kind."""

_SOURCES: Mapping[int, str] = {
    ConfigSource.BROKER: "broker",
    ConfigSource.ALL_BROKERS: "all brokers",
    ConfigSource.FILE: "file",
}
_FEW = 5
"""Brokers of which the partitions that need them are named; of others with --broker."""
LEADER_ERRORS = ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH")


def brokers_report(
    facts: "ClusterFacts",
    findings: "tuple[Finding, ...]",
    everything: bool = False,
    shown_brokers: Collection[int] = (),
) -> Report:
    """The findings, then the brokers, or those of `shown_brokers`; features, APIs and settings
    where `everything` is asked for.

    JSON and CSV, which programs read, have all of it.
    """
    from kipctl.cluster.inspect.findings.isr import needed_by

    chosen = [broker for broker in facts.brokers if not shown_brokers or broker.id in shown_brokers]
    needed = needed_by(facts)
    by_broker, brokers = _brokers(facts, chosen, needed)
    by_feature, features = _features(facts)
    by_api, apis = _apis(facts)
    by_setting, settings = _settings(facts)
    tables = {"brokers": by_broker}
    if facts.metrics:
        tables |= {"counts": _counts(facts), "connections": _connections(facts)}
    details = {"features": by_feature, "apis": by_api, "settings": by_setting}
    if everything:
        tables |= details
    further = {} if everything else details
    further["findings"] = _findings(findings)
    severities = Counter(str(finding.severity) for finding in findings)
    return Report(
        "inspect brokers",
        {
            "brokers": [
                shown
                | _broker_document(broker)
                | {"needed_by_partitions": list(map(str, needed.get(broker.id, ())))}
                for shown, broker in zip(brokers, chosen, strict=True)
            ],
            "features": features,
            "apis": apis,
            "settings": settings,
            "reassignments": _reassignments_document(facts),
            "product": facts.product,
            "metrics": [_metrics_document(metrics) for metrics in facts.metrics],
            "findings": [
                {
                    "id": finding.id,
                    "severity": str(finding.severity),
                    "what": finding.what,
                    "consequence": finding.consequence,
                    "change": finding.change,
                    "commands": list(finding.commands),
                }
                for finding in findings
            ],
            "severities": dict(severities),
        },
        _named(tables),
        () if everything else ("Features, APIs and settings: -o wide.",),
        (_answer(facts, severities), *map(_paragraph, findings)),
        _named(further),
    )


def _named(tables: Mapping[str, Table]) -> tuple[Table, ...]:
    return tuple(replace(table, name=name) for name, table in tables.items())


def _brokers(
    facts: "ClusterFacts",
    chosen: "Sequence[BrokerFacts]",
    needed: "Mapping[int, Sequence[PartitionId]]",
) -> tuple[Table, list[dict[str, Value]]]:

    from kipctl.cluster.inspect.findings.isr import may_be_needed

    snapshot = facts.snapshot
    leader_counts = snapshot.leaders_per_broker
    preferred = Counter(p.preferred_leader for p in snapshot.partitions)
    not_in_sync = Counter(
        r for p in snapshot.partitions for r in facts.replicas(p) if r not in p.isr
    )
    adding = Counter(r for p in snapshot.partitions for r in facts.adding(p))
    whose = [broker.id for broker in chosen if broker.id in needed][:_FEW]
    doubtful = may_be_needed(facts)
    return listing(
        "Brokers",
        {
            "broker": "Broker",
            "address": "Address",
            "rack": "Rack",
            "release": "Kafka",
            "leader_count": "Leaders",
            "preferred": "Preferred",
            "not_in_sync": "Not in sync",
            "adding_replicas": Column("(adding)", detail=True),
            "needed_by": "Needed by",
            "is_answering": "Answers",
        },
        (
            (
                broker.id,
                host_port(broker.broker.host, broker.broker.port),
                broker.broker.rack,
                _release(facts, broker),
                leader_counts[broker.id],
                preferred[broker.id],
                not_in_sync[broker.id],
                adding[broker.id],
                len(needed.get(broker.id, ())) or (None if broker.id in doubtful else 0),
                broker.no_answer is None,
            )
            for broker in chosen
        ),
        (
            "Needed by: partitions that would refuse acks=all, or have no leader, if the broker"
            " stopped now."
            + (" Nothing: min.insync.replicas of some is not known." if doubtful else ""),
            *(f"Broker {broker} is needed by {first_few(needed[broker])}." for broker in whose),
            *(
                ("(adding): replicas being copied for a reassignment; not counted before.",)
                if adding
                else ()
            ),
        ),
    )


def _broker_document(broker: "BrokerFacts") -> dict[str, object]:
    """What the tables show of all brokers together, for each of them."""
    return {
        "error": broker.no_answer or (broker.settings_error and broker.settings_error.what),
        "lists": None if broker.lists is None else sorted(broker.lists),
        "feature_versions": {
            name: {"in_use": broker.finalized.get(name, 0), "supported": list(versions)}
            for name, versions in broker.supported.items()
        },
        "api_versions": {str(key): list(versions) for key, versions in broker.api_versions.items()},
        "setting_values": dict(broker.settings),
        "throttle_settings": dict(broker.throttles),
        "throttles_from": {
            config: [_SOURCES.get(source, "elsewhere") for source in sources]
            for config, sources in broker.throttles_from.items()
        },
        "log_dirs": [
            {"path": log_dir.path, "error": log_dir.error, "cordoned": log_dir.is_cordoned}
            for log_dir in broker.directories
        ],
        "log_dirs_error": broker.directories_error,
    }


def _reassignments_document(facts: "ClusterFacts") -> dict[str, object]:
    copying = facts.copying
    return {
        "in_progress": None if copying.error else len(copying.busy),
        "error": copying.error,
        "looked_seconds": copying.looked_s,
        "stalled": [
            {"broker": broker, "partitions": len(partitions)}
            for broker, partitions in copying.stalled.items()
        ],
    }


def _release(facts: "ClusterFacts", broker: "BrokerFacts") -> str | None:
    """The exact version if the broker's metrics show it, else what its features give away."""
    from kipctl.cluster.inspect.findings.releases import METADATA_VERSION
    from kipctl.cluster.kafka_release import release_of

    metrics = facts.metrics_of(broker.id)
    if metrics is not None and metrics.kafka_version is not None:
        return metrics.kafka_version
    return release_of(broker.supported.get(METADATA_VERSION, (0, 0))[1])


def _features(facts: "ClusterFacts") -> tuple[Table, list[dict[str, Value]]]:
    names = sorted({name for broker in facts.answering for name in broker.supported})
    return listing(
        "Features",
        {"feature": "Feature", "in_use_by_brokers": "In use", "supported_by_brokers": "Supported"},
        (
            (
                name,
                _alike({b.id: str(b.finalized.get(name, 0)) for b in facts.answering}),
                _alike({b.id: _range(b.supported.get(name)) for b in facts.answering}),
            )
            for name in names
        ),
    )


def _apis(facts: "ClusterFacts") -> tuple[Table, list[dict[str, Value]]]:
    from kipctl.cluster.inspect.findings.diagnose import API_MEANINGS, highest_of_all

    return listing(
        "APIs",
        {
            "api": "API",
            "versions": "Versions",
            "from_version": "From",
            "brings": "Brings",
            "all_brokers": "All brokers",
        },
        (
            (
                "".join(word.title() for word in api.name.split("_")),
                _alike({b.id: _range(b.api_versions.get(api)) for b in facts.answering}),
                version,
                meaning,
                version <= highest_of_all(facts, api),
            )
            for api, meanings in API_MEANINGS.items()
            for version, meaning in meanings.items()
        ),
    )


def _settings(facts: "ClusterFacts") -> tuple[Table, list[dict[str, Value]]]:
    from kipctl.cluster.inspect.findings.facts import SETTINGS

    reported = {b.id: b.settings for b in facts.answering if b.settings_error is None}
    return listing(
        "Settings",
        {"setting": "Setting", "value": "Value", "decides": "Decides"},
        (
            (
                name,
                _alike({b: settings.get(name) or "-" for b, settings in reported.items()}),
                decides,
            )
            for name, decides in SETTINGS.items()
        ),
        ("As brokers have them; what controllers decide they decide by their own file.",),
    )


def _counts(facts: "ClusterFacts") -> Table:
    return listing(
        "Counted by the brokers",
        {
            "broker": "Broker",
            "count": "Count",
            "since_start": "Since its start",
            "meanwhile": "Meanwhile",
            "own": "Of those kipctl's",
        },
        (row for metrics in facts.metrics for row in _count_rows(metrics)),
        ("Meanwhile: from before this command's requests to the brokers until after them.",),
    )[0]


def _count_rows(metrics: "MetricsFacts") -> Iterator[tuple[Value, ...]]:
    before, after = metrics.before, metrics.after
    if before is None or after is None:
        return
    broker = metrics.url if metrics.broker is None else str(metrics.broker)
    for api, sent in COUNTED.items():
        own = None
        if metrics.own is not None:
            own = sum(count for (name, _), count in metrics.own.items() if name == sent)
        now = after.requests_of(api)
        yield broker, f"{api} requests", now, now - before.requests_of(api), own
    for error in LEADER_ERRORS:
        now = after.errors_named(error)
        yield broker, f"{error} answers", now, now - before.errors_named(error), None


def _connections(facts: "ClusterFacts") -> Table:
    open_now: Counter[tuple[str, str]] = Counter()
    reported = [m.after.connections for m in facts.metrics if m.after and m.after.connections]
    for connections in reported:
        open_now.update(connections)
    return listing(
        "Clients connected",
        {"software": "Software", "version": "Version", "connections": "Connections"},
        ((*software, count) for software, count in sorted(open_now.items())),
        () if reported else ("The exporters do not report it.",),
    )[0]


def _metrics_document(metrics: "MetricsFacts") -> dict[str, object]:
    return {
        "url": metrics.url,
        "broker": metrics.broker,
        "error": metrics.error.what if metrics.error else None,
        "before": _counts_document(metrics.before),
        "after": _counts_document(metrics.after),
        "own_requests": None if metrics.own is None else _requests(metrics.own),
    }


def _counts_document(metrics: "BrokerMetrics | None") -> dict[str, object] | None:
    if metrics is None:
        return None
    return {
        "kafka_version": metrics.kafka_version,
        "requests_by_version": _requests(metrics.requests),
        "errors_by_api": [
            {"api": api, "error": error, "count": count}
            for (api, error), count in sorted(metrics.errors.items())
        ],
        "connections_by_software": None
        if metrics.connections is None
        else [
            {"software": name, "version": version, "connections": count}
            for (name, version), count in sorted(metrics.connections.items())
        ],
        "under_replicated": metrics.under_replicated,
        "bytes_out": metrics.bytes_out,
    }


def _requests(counts: Mapping[tuple[str, int], int]) -> list[dict[str, object]]:
    return [
        {"api": api, "api_version": version, "count": count}
        for (api, version), count in sorted(counts.items())
    ]


def _findings(findings: "tuple[Finding, ...]") -> Table:
    return listing(
        "Findings",
        {
            "severity": "Severity",
            "what": "What",
            "consequence": "Consequence",
            "change": "Change",
            "id": "Id",
        },
        (
            (
                str(finding.severity),
                finding.what,
                finding.consequence,
                " ".join((finding.change, *finding.commands)),
                finding.id,
            )
            for finding in findings
        ),
    )[0]


def _answer(facts: "ClusterFacts", severities: Counter[str]) -> Paragraph:
    """How the cluster is, in a sentence."""
    releases = {release for broker in facts.brokers if (release := _release(facts, broker))}
    kafka = f"Kafka {', '.join(sorted(releases)) or '?'}"
    product = kafka if facts.product is Product.KAFKA else facts.product
    whose = f"{counted(len(facts.brokers), 'broker')} of {product}"
    if not severities:
        return Paragraph(f"Nothing is wrong with {whose}. Nothing was changed.", tone=Tone.GOOD)
    summary = ", ".join(counted(count, str(name)) for name, count in severities.items())
    return Paragraph(f"{summary} at {whose}. Nothing was changed.")


def _paragraph(finding: "Finding") -> Paragraph:
    tones = {"problem": Tone.BAD, "warning": Tone.WARNING}
    return Paragraph(
        f"{finding.severity}: {finding.what}",
        (
            finding.consequence,
            finding.change,
            *finding.commands,
            "More: " + Command("explain", finding.id),
        ),
        tones.get(finding.severity, Tone.NONE),
    )


def _alike(values: Mapping[int, str]) -> str | None:
    """The one value of all brokers, or each broker's; None when nobody reported it."""
    if len(set(values.values())) > 1:
        return ", ".join(f"{broker}: {value}" for broker, value in values.items())
    return next(iter(values.values()), None)


def _range(versions: tuple[int, int] | None) -> str:
    return f"{versions[0]}-{versions[1]}" if versions else "none"
