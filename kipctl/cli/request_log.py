"""`kipctl request-log`: the brokers' request log, switched on and off while they run."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.leader_reports import listing
from kipctl.cli.options import BootstrapOption, OutputOption, parse_duration
from kipctl.errors import InterruptedRunError
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.cluster.request_log import LoggerLevel
    from kipctl.transport.request import Cluster

app = typer.Typer(
    help="Switch the request log of running brokers on and off.", no_args_is_help=True
)

BrokerOption = Annotated[
    list[int] | None,
    typer.Option(
        "--broker", metavar="ID", min=0, help="A broker; repeatable. Default: every broker."
    ),
]

COST = "about 2 kB of log and 0.15 ms of a broker's CPU for each request"
_TIMEOUT_S = 10.0


@app.command()
def on(
    context: typer.Context,
    broker: BrokerOption = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="TIME", help="Switch it off again after 30s, 5m or 1h, or on Ctrl-C."
        ),
    ] = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Let brokers log each request that they answer: kafka.request.logger at DEBUG.

    It costs about 2 kB of log and 0.15 ms of a broker's CPU for each request. The lines go where
    the broker's log4j file sends that logger. With --for it is always switched off again: when the
    time is over, on Ctrl-C, SIGTERM and SIGHUP, and when a broker fails in between; one that was on
    before stays on. Without, it stays on until `kipctl request-log off`, or until the broker
    restarts. Either all brokers asked for are switched on, or none.
    """
    environment = context.ensure_object(Environment)
    seconds = None if duration is None else parse_duration(duration)
    from kipctl.cluster.request_log import chosen_brokers, level_at, named, switch_on
    from kipctl.signals import noted_signals
    from kipctl.transport.request import Cluster

    with Cluster(environment.access(bootstrap_server), timeout_s=_TIMEOUT_S) as cluster:
        brokers = chosen_brokers(cluster, broker or ())
        # Opens every connection too, while Ctrl-C may still end it at any moment.
        levels = {one: level_at(cluster, one) for one in brokers}
        if seconds is not None:
            _on_for(environment, cluster, levels, seconds, output)
            return
        with noted_signals() as ended:
            switched = switch_on(cluster, levels, ended)
    environment.report(_report("on", switched), output)
    environment.message(
        f"It stays on at {named(brokers)}, at the cost of {COST}.\n"
        "Switch it off: kipctl request-log off" + "".join(f" --broker {b}" for b in broker or ())
    )


@app.command()
def off(
    context: typer.Context,
    broker: BrokerOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Let brokers log no more requests: kafka.request.logger at WARN, as Kafka comes."""
    environment = context.ensure_object(Environment)
    from kipctl.cluster.request_log import chosen_brokers, demand_all_reported, switch_off
    from kipctl.transport.request import Cluster

    with Cluster(environment.access(bootstrap_server), timeout_s=_TIMEOUT_S) as cluster:
        switched = switch_off(cluster, chosen_brokers(cluster, broker or ()))
    environment.report(_report("off", switched), output)
    demand_all_reported(switched, "off")


@app.command()
def status(
    context: typer.Context,
    broker: BrokerOption = None,
    bootstrap_server: BootstrapOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Show at which brokers the request log is on. Changes nothing."""
    environment = context.ensure_object(Environment)
    from kipctl.cluster.request_log import chosen_brokers, demand_all_reported, look
    from kipctl.transport.request import Cluster

    with Cluster(environment.access(bootstrap_server), timeout_s=_TIMEOUT_S) as cluster:
        levels = look(cluster, chosen_brokers(cluster, broker or ()))
    environment.report(_status_report(levels), output)
    demand_all_reported(levels, "status")


def _on_for(
    environment: Environment,
    cluster: "Cluster",
    levels: dict[int, str],
    seconds: float,
    output: OutputFormat,
) -> None:
    """Switch on, wait, and switch off again, whatever happens."""
    from kipctl.cluster.request_log import (
        demand_all_back,
        is_on,
        named,
        stay_on,
        switch_back,
        switch_on,
    )
    from kipctl.signals import noted_signals

    with (
        environment.progress(f"Switching the request log on at {named(tuple(levels))}.") as tell,
        noted_signals() as ended,
    ):
        started = time.monotonic()
        switched = switch_on(cluster, levels, ended)
        try:
            interrupted = stay_on(switched, seconds, ended, tell)
        finally:
            on_s = time.monotonic() - started
            now = switch_back(cluster, switched)
    environment.report(_report("on", now, on_s), output)
    demand_all_back(now)
    off_again = [one.broker for one in now if not is_on(one.level)]
    left_on = [one.broker for one in now if is_on(one.level)]
    said = (f"The request log is off again at {named(off_again)}." if off_again else "") + (
        f" It stays on at {named(left_on)}, as it was before." if left_on else ""
    )
    if interrupted:
        raise InterruptedRunError(f"Interrupted after {on_s:.0f} s. {said.strip()}")
    environment.message(said.strip())


def _report(action: str, levels: "Sequence[LoggerLevel]", on_s: float | None = None) -> Report:
    """A row per broker; `on_s` says that the log was on for so many seconds, and is over."""
    from kipctl.cluster.request_log import LOGGER, is_on

    table, brokers = listing(
        f"Request log ({LOGGER})",
        {
            "broker": "Broker",
            "on": "On",
            "level": "Level",
            "level_before": "Level before",
            "error": "Error",
        },
        (
            (
                one.broker,
                None if one.level is None else is_on(one.level),
                one.level,
                one.before,
                one.error.what if one.error else None,
            )
            for one in levels
        ),
    )
    document: dict[str, object] = {"logger": LOGGER, "brokers": brokers}
    closing: tuple[str, ...] = ()
    if on_s is not None:
        document["seconds"] = on_s
        closing = (f"It was on for {on_s:.1f} s.",)
    return Report(f"request-log {action}", document, (table,), closing)


def _status_report(levels: "Sequence[LoggerLevel]") -> Report:
    from kipctl.cluster.request_log import LOGGER, is_on

    table, brokers = listing(
        f"Request log ({LOGGER})",
        {"broker": "Broker", "on": "On", "level": "Level", "error": "Error"},
        (
            (
                one.broker,
                None if one.level is None else is_on(one.level),
                one.level,
                one.error.what if one.error else None,
            )
            for one in levels
        ),
    )
    return Report("request-log status", {"logger": LOGGER, "brokers": brokers}, (table,))
