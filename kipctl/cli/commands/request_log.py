"""`kipctl request-log`: brokers' request logs, switched on and off while they run, and packed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kipctl.cli.combinations import combined
from kipctl.cli.environment import Environment
from kipctl.cli.grouped import Commands
from kipctl.cli.options import (
    ClusterOptions,
    OutputOption,
    SparkOptions,
    TimezoneOption,
    YesOption,
    argument,
    duration_option,
    option,
    started_spark,
)
from kipctl.counts import broker_list
from kipctl.durations import Duration
from kipctl.errors import InterruptedRunError
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat
from kipctl.report.logger_level_tables import levels_report, switched_back

if TYPE_CHECKING:
    from kipctl.cluster.request_log import LoggerLevel
    from kipctl.transport.request import Cluster

app = Commands()

_TIMEOUT_S = 10.0


@app.command()
@combined(one_of=(("--broker", "--all-brokers"), ("--for", "--until-off")))
def on(
    environment: Environment,
    options: ClusterOptions,
    broker: Annotated[
        list[int] | None, option("At this broker; repeatable.", value="BROKER", min=0)
    ] = None,
    all_brokers: Annotated[bool, option("At every broker of the cluster.")] = False,
    period: Annotated[
        Duration | None,
        duration_option("--for", "Switch it off again after so long, or on Ctrl-C."),
    ] = None,
    until_off: Annotated[bool, option("Leave it on, until `kipctl request-log off`.")] = False,
    metrics_url: Annotated[
        list[str] | None,
        option(
            "Where a broker's JMX exporter serves its metrics, to tell what it will cost;"
            " repeatable.",
            value="URL",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Let brokers log each request that they answer: kafka.request.logger at DEBUG.

    It costs about 2 kB of log and 0.15 ms of a broker's CPU for each request. The lines go where
    the broker's log4j file sends that logger. With --for it is always switched off again: when the
    time is over, on Ctrl-C, SIGTERM and SIGHUP, and when a broker fails in between; one that was on
    before stays on. With --until-off it stays on until `kipctl request-log off`, or until the
    broker restarts. Either all brokers asked for are switched on, or none. If kipctl cannot switch
    it off, because it was killed, say, every later one says on this machine that it is still on.
    """
    from kipctl.cluster.request_log import chosen_brokers, levels_of

    with options.connected(environment, _TIMEOUT_S) as cluster:
        urls = environment.metrics_urls(metrics_url)
        brokers = chosen_brokers(cluster, broker or ())
        # Opens every connection too, while Ctrl-C may still end it at any moment.
        levels = levels_of(cluster, brokers)
        _confirm(environment, cluster, brokers, period, urls, yes)
        if period is None:
            _until_off(environment, cluster, levels, broker or (), options.output)
        else:
            _on_for(environment, cluster, levels, period, options.output)


def _confirm(
    environment: Environment,
    cluster: "Cluster",
    brokers: Sequence[int],
    seconds: float | None,
    urls: Sequence[str],
    yes: bool,
) -> None:
    """Ask, with what it will cost and tell; a lab may be logged without a question."""
    from kipctl.cli.commands.confirm import is_lab
    from kipctl.cluster.request_log_cost import estimate, request_rates
    from kipctl.cluster.snapshot import take_snapshot
    from kipctl.transport.access import UNSECURED

    if is_lab(cluster):
        return
    rates = request_rates(urls, take_snapshot(cluster, ()).brokers)
    environment.message(estimate(brokers, rates, seconds))
    if cluster.access.security != UNSECURED:
        environment.message(
            "Kafka then also writes SCRAM's salted passwords of users that are changed, and"
            " delegation tokens, and they suffice to log in: change no users while it is on, and"
            " mind who reads the logs."
        )
    how_long = "until it is switched off" if seconds is None else f"for {Duration(seconds)}"
    environment.confirm(
        f"Log every request that {broker_list(brokers, 'answer')}, {how_long}?",
        yes,
    )


@dataclass(frozen=True)
class _BrokersOptions(ClusterOptions):
    broker: Annotated[
        list[int] | None,
        option("A broker; repeatable. Default: every broker.", value="BROKER", min=0),
    ] = None


@app.command()
def off(environment: Environment, options: _BrokersOptions) -> None:
    """Let brokers log no more requests: kafka.request.logger at WARN, as Kafka comes."""
    from kipctl.cluster.request_log import switch_off

    _at_brokers(environment, "off", switch_off, options)


@app.command()
def status(environment: Environment, options: _BrokersOptions) -> None:
    """Show at which brokers the request log is on. Changes nothing."""
    from kipctl.cluster.request_log import read_levels

    _at_brokers(environment, "status", read_levels, options)


@app.command()
def pack(
    environment: Environment,
    path: Annotated[list[str], argument("PATH...", "Files, folders or wildcards; .gz too.")],
    on: SparkOptions,
    to: Annotated[str, option("The pack: a folder for it alone.", value="DIR")],
    timezone: TimezoneOption = None,
    output: OutputOption = OutputFormat.AUTO,
) -> None:
    """Read request logs once, and keep what `kipctl analyze request-log DIR` is made of.

    Files that are in the pack already are read again only if they have grown, or for another
    --timezone; files that are gone stay in it. What is packed is counted in slices of five seconds.
    """
    from kipctl.pipeline.preflight import check_logs, check_pack
    from kipctl.pipeline.request_log import packing
    from kipctl.pipeline.request_log.files import parse_timezones
    from kipctl.report.pack_table import pack_report

    place = on.place.without_connect("A pack is written as files, and Spark Connect lends none.")
    zones = parse_timezones(timezone or ())
    check_logs([*path, *(at for at, _ in zones.at)])
    check_pack(to)
    with started_spark(environment, place, path, ships_python=True) as spark:
        document = packing.pack(spark, path, to, zones)
    environment.report(pack_report(document), output)


def _at_brokers(
    environment: Environment,
    action: str,
    act: "Callable[[Cluster, Sequence[int]], Sequence[LoggerLevel]]",
    options: _BrokersOptions,
) -> None:
    from kipctl.cluster.request_log import chosen_brokers, require_all_reported
    from kipctl.cluster.request_log_session import forget_switched_off

    with options.connected(environment, _TIMEOUT_S) as cluster:
        levels = act(cluster, chosen_brokers(cluster, options.broker or ()))
        forget_switched_off(cluster, levels, environment.variables)
    environment.report(levels_report(action, levels), options.output)
    require_all_reported(levels, action)


def _until_off(
    environment: Environment,
    cluster: "Cluster",
    levels: dict[int, str],
    asked: Sequence[int],
    output: OutputFormat,
) -> None:
    """Switch on, and say how to end it; `asked` is empty for all brokers."""
    from kipctl.cluster.request_log_session import switch_on_recorded
    from kipctl.signals import noted_signals

    with noted_signals() as ended:
        switched = switch_on_recorded(cluster, levels, None, ended, environment.variables)
    environment.report(levels_report("on", switched), output)
    environment.message(
        f"It stays on at {broker_list(tuple(levels))}, at the cost of about 2 kB of log and 0.15 ms"
        " of a broker's CPU for each request.",
        "Switch it off: " + Command("request-log off", broker=asked),
    )


def _on_for(
    environment: Environment,
    cluster: "Cluster",
    levels: dict[int, str],
    seconds: float,
    output: OutputFormat,
) -> None:
    """Switch on, wait, and switch off again, whatever happens."""
    from kipctl.cluster.request_log import require_all_restored
    from kipctl.cluster.request_log_session import on_for
    from kipctl.signals import noted_signals

    title = f"Switching the request log on at {broker_list(tuple(levels))}."
    with environment.progress(title) as tell, noted_signals() as ended:
        was_on = on_for(cluster, levels, seconds, ended, tell, environment.variables)
    environment.report(levels_report("on", was_on.levels, was_on.seconds), output)
    require_all_restored(was_on.levels)
    said = switched_back(was_on.levels)
    if was_on.was_ended:
        raise InterruptedRunError(f"Interrupted after {was_on.seconds:.0f} s. {said}")
    environment.message(said)
