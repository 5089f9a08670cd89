"""`kipctl inspect metadata`: what Metadata costs, and whether all brokers show the same."""

from typing import TYPE_CHECKING, Annotated

from kipctl.cli.environment import Environment
from kipctl.cli.options import ClusterOptions, YesOption, option
from kipctl.errors import UsageError
from kipctl.report.metadata_view_tables import MOST_BYTES, metadata_report

if TYPE_CHECKING:
    from kipctl.load.metadata.convergence import Sightings

TIMEOUT_S = 5.0
"""For each request: a broker that hangs is reported, not waited for."""


def metadata(
    environment: Environment,
    options: ClusterOptions,
    topic: Annotated[
        list[str] | None,
        option(
            "Compare brokers' views of this topic or glob; repeatable. Default: all.", value="TOPIC"
        ),
    ] = None,
    measure_convergence: Annotated[
        bool,
        option(
            "Also move leaders, of a topic made and removed for it, and measure when each"
            " broker knows."
        ),
    ] = False,
    moves: Annotated[int, option("How often --measure-convergence moves them.")] = 5,
    yes: YesOption = False,
) -> None:
    """Show what a Metadata request costs, and whether every broker shows the same.

    Brokers are asked for one topic and for all, and their views are compared with the newest that
    any of them has. Where all brokers' answers would be more than 32 MB, some are asked; with
    --topic their answers are short, and more of them can be. Only --measure-convergence changes
    anything, and asks before, unless it is on a lab.
    """
    from kipctl.cli.commands.confirm import confirm_unless_lab
    from kipctl.cluster.inspect.metadata_cost import SAMPLES, costs
    from kipctl.cluster.inspect.metadata_views import (
        answer_bytes,
        compare_views,
        sampled,
    )
    from kipctl.cluster.snapshot import select, take_snapshot
    from kipctl.load.metadata.convergence import PARTITIONS
    from kipctl.load.metadata.convergence import measure_convergence as measure

    if moves < 1:
        raise UsageError(f"--moves is {moves}; it must be at least 1.")
    with options.connected(environment, TIMEOUT_S) as cluster:
        snapshot = take_snapshot(cluster, named=topic or [])
        if measure_convergence:
            confirm_unless_lab(
                environment,
                cluster,
                f"--measure-convergence makes a topic of {PARTITIONS} partitions, moves their"
                f" leaders {moves} times, and removes it. Do that?",
                yes,
            )
        environment.report_hidden_topics(cluster, snapshot.topics, topic or [])
        chosen = select(snapshot, topic) if topic else snapshot
        asked = sampled(snapshot.brokers, answer_bytes(chosen), MOST_BYTES)
        compared = compare_views(cluster, asked, chosen.topics if topic else None)
        silent = {view.broker.id: view.error for view in compared.views if view.error}
        cost = costs(
            cluster,
            sampled(asked, SAMPLES * answer_bytes(snapshot), MOST_BYTES),
            next(iter(chosen.topics), None),
            silent,
        )
        seen: tuple[Sightings, ...] | None = None
        if measure_convergence:
            seen = measure(cluster, moves, environment.message)
    environment.report(
        metadata_report(cost, compared, len(snapshot.brokers), snapshot.away, seen), options.output
    )
