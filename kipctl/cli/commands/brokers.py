"""`kipctl inspect brokers`: a doctor for the cluster. Changes nothing."""

from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    ClusterOptions,
    MetricsUrlOption,
    ShownBrokerOption,
    pause_option,
)
from kipctl.durations import Duration
from kipctl.errors import KipctlError
from kipctl.report.formats import OutputFormat

TIMEOUT_S = 10.0
"""For each answer: a broker that hangs is a finding, not a reason to wait."""


def brokers(
    environment: Environment,
    options: ClusterOptions,
    metrics_url: MetricsUrlOption = None,
    refresh_snapshot: Annotated[
        Duration,
        pause_option(
            "--look-again",
            "While data is being reassigned: see after so long whether it goes on; 0s: not."
            " A throttle may stop it for 11 s.",
        ),
    ] = Duration(12),
    broker: ShownBrokerOption = None,
) -> None:
    """Show what is wrong with brokers and what to change, and how they are.

    Each finding says what follows from it when leaders move. With --broker the table has these
    brokers alone; findings are of the whole cluster. With --metrics-url the brokers' own
    counts of requests and errors stand beside those that kipctl sent meanwhile.

    A broker may stop where `Needed by` is 0. What its restart risks:
    `kipctl roll --broker 3 --dry-run`.
    """
    from kipctl.changes.execution.throttled_change import known_throttles
    from kipctl.changes.journal.journal import journal
    from kipctl.changes.plans.planners.placement import require_known
    from kipctl.cluster.inspect.findings.diagnose import diagnose
    from kipctl.cluster.inspect.findings.facts import collect_facts
    from kipctl.report.broker_tables import brokers_report

    kept, changed_by = None, ""
    with options.connected(environment, TIMEOUT_S) as cluster:
        urls = environment.metrics_urls(metrics_url)
        with suppress(KipctlError):  # it may end while brokers are looked at
            kept = journal(cluster.metadata(()).cluster_id or "", environment.variables)
            changed_by = kept.changed_by()
        facts = collect_facts(cluster, urls, refresh_snapshot)
        environment.report_hidden_topics(cluster, facts.snapshot.topics)
    if kept:  # of a cluster without an id nothing is kept
        with suppress(KipctlError):
            facts = replace(facts, known_throttles=known_throttles(kept))
        changed_by = changed_by or kept.changed_by()
    if changed_by:
        environment.message(
            f"Changing this cluster meanwhile: {changed_by}. What is out of sync, throttled or not"
            " led by the preferred replica may be so because of that."
        )
    require_known(facts.snapshot, broker or ())
    everything = options.output is OutputFormat.WIDE
    report = brokers_report(facts, diagnose(facts), everything, broker or ())
    environment.report(report, options.output)
