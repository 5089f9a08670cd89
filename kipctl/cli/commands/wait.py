"""`kipctl wait`: until a cluster is as the next step of a script needs it. Changes nothing."""

import time
from contextlib import suppress
from typing import Annotated

from kipctl.cli.environment import Environment
from kipctl.cli.options import ClusterOptions, duration_option, option
from kipctl.durations import Duration
from kipctl.errors import KipctlError
from kipctl.next_step import Command

TIMEOUT_S = 10.0
"""For each answer."""


def wait(
    environment: Environment,
    options: ClusterOptions,
    until: Annotated[
        str,
        option(
            "in-sync: every replica is in sync; preferred: the first replica leads; "
            "converged: every broker answers, and those compared (20 at a time) show the same"
            " leaders; no-reassignment: none goes on.",
            value="STATE,...",
        ),
    ] = "in-sync,converged",
    topic: Annotated[
        list[str] | None, option("A topic or glob; repeatable. Else all topics.", value="TOPIC")
    ] = None,
    timeout: Annotated[Duration, duration_option("How long to wait.")] = Duration(300),
) -> None:
    """Wait until all partitions meet these conditions at once, as between two broker restarts.

    Internal topics are waited for too, unless topics are named. Status 6 says what is not met in
    time. Brokers that do not answer are asked again until then.
    """
    from kipctl.changes.journal.journal import journal
    from kipctl.changes.wait_conditions import await_conditions, parse_conditions
    from kipctl.cluster.snapshot import select, take_snapshot
    from kipctl.report.wait_tables import wait_report

    wanted = parse_conditions(until)
    began = time.monotonic()
    with options.connected(environment, TIMEOUT_S) as cluster:
        topics = None
        if topic:
            topics = select(take_snapshot(cluster, named=topic), topic).topics
        with environment.progress(f"Waiting for {', '.join(wanted)}") as progress:
            seen = await_conditions(cluster, topics, wanted, timeout, progress)
        environment.report_hidden_topics(cluster, seen.snapshot.topics, topic or [])
    seconds = time.monotonic() - began
    with suppress(KipctlError):  # of a cluster without an id nothing is kept
        if changed_by := journal(seen.snapshot.cluster_id, environment.variables).changed_by():
            environment.message(
                f"{changed_by}, is changing this cluster now, and may begin more. See how far "
                "it is: " + Command("changes list")
            )
    environment.report(wait_report(seen, wanted, seconds), options.output)
