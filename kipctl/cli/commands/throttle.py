"""`kipctl throttle`: what brokers copy when they come back, without a reassignment."""

from dataclasses import replace
from typing import Annotated

from kipctl.cli.commands.change_options import ChangeOptions, ChangeTimeoutOption, changing
from kipctl.cli.commands.guard import GuardOptions, read_guard
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import (
    ClusterOptions,
    MetricsUrlOption,
    TopicOption,
    argument,
    option,
    parse_rate,
)
from kipctl.errors import UsageError

app = Commands()
DEFAULT_GUARD = "p95 > 1.5x and > 10ms"
"""Six of the 600 records of a look are beyond its p99: any pause of a broker is. Thirty are not."""

BrokerOption = Annotated[
    list[int] | None, option("Only at this broker; repeatable. Else all.", value="BROKER", min=0)
]


@app.command("set")
def set_rate(
    environment: Environment,
    options: ChangeOptions,
    rate: Annotated[str, argument("RATE", "In and out of a broker, as 50MB/s.")],
    broker: BrokerOption = None,
    topic: TopicOption = None,
) -> None:
    """Copy what is out of sync at most at this rate, until `kipctl throttle clear`.

    Without --topic it holds for the topics that have replicas out of sync. Kafka holds back only
    replicas that are out of sync: clients and replicas in sync are as fast as before.
    """
    from kipctl.changes.carry_out import carry_out
    from kipctl.changes.recovery_throttle import SetThrottle

    wanted = SetThrottle(parse_rate(rate), tuple(sorted({*(broker or ())})))
    with changing(environment, options, topics=topic or []) as (change, _):
        carry_out(change, wanted)


@app.command()
def adapt(
    environment: Environment,
    options: ChangeOptions,
    guard: Annotated[
        list[str] | None,
        option(
            "What lowers the rate, as of `kipctl reassign --guard`; repeatable."
            f" Default: '{DEFAULT_GUARD}', of a producer that kipctl runs.",
            value="CONDITION",
        ),
    ] = None,
    begin_at: Annotated[str, option("The first rate.", value="RATE")] = "20MB/s",
    at_least: Annotated[str, option("It never goes below.", value="RATE")] = "2MB/s",
    at_most: Annotated[str, option("It never goes above.", value="RATE")] = "1GB/s",
    broker: BrokerOption = None,
    topic: TopicOption = None,
    timeout: ChangeTimeoutOption = None,
    metrics_url: MetricsUrlOption = None,
) -> None:
    """Let the rate follow what clients feel, until all replicas are in sync; then take it off.

    It grows while the guard is quiet, and is cut when it is crossed; also that of a change that
    runs with --throttle. What clients wait undisturbed is measured first, under --at-least. A
    broker that is away is waited for: begin before you start it. Ctrl-C takes it off, too.
    """
    from kipctl.changes.adapt_throttle import AdaptThrottle
    from kipctl.changes.carry_out import carry_out

    floor, ceiling, first = map(parse_rate, (at_least, at_most, begin_at))
    if not floor <= ceiling:
        raise UsageError("--at-least is above --at-most.")
    wanted = AdaptThrottle(
        min(max(first, floor), ceiling), tuple(sorted({*(broker or ())})), floor, ceiling
    )
    guard_options = GuardOptions(guard or [DEFAULT_GUARD], metrics_url=metrics_url)
    settings = read_guard(guard_options, moves_along=False)
    settings = replace(settings, patience_s=float("inf"), quiet_s=0.0)
    with changing(environment, options, guard=settings, topics=topic or [], timeout_s=timeout) as (
        change,
        _,
    ):
        carry_out(change, wanted)


@app.command()
def show(environment: Environment, options: ClusterOptions) -> None:
    """Show every throttle that is set: where, who has set it, and what needs it now."""
    from kipctl.changes.execution.throttled_change import known_throttles
    from kipctl.changes.left_throttles import look_at_throttles
    from kipctl.report.throttle_tables import seen_report

    with changing(environment, options) as (change, ui):
        known = known_throttles(change.journal())
        ui.report(seen_report(look_at_throttles(change.cluster, known)))


@app.command()
def clear(environment: Environment, options: ChangeOptions) -> None:
    """Take off what `kipctl throttle` has set from here, also while something is copied under it.

    What changes have left, and others: `kipctl changes clear-throttles`.
    """
    from kipctl.changes.carry_out import carry_out
    from kipctl.changes.clear_throttles import ClearThrottle

    with changing(environment, options) as (change, _):
        carry_out(change, ClearThrottle())
