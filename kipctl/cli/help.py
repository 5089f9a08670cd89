"""How help is laid out: options by purpose, values by a word for them, and examples that run."""

from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

HELP_OPTION_NAMES = ["-h", "--help"]

VALUE_NAMES: Mapping[type, str] = {int: "INTEGER", float: "NUMBER", Path: "PATH"}
"""What stands for a value in help and man pages; anything else is TEXT."""

_UNDO = {
    "Which change": "entry journal",
    "How fast": "batch between concurrent throttle timeout",
    "Asking first": "dry_run yes force additional",
}
PANELS: Mapping[str, Mapping[str, str]] = {
    "changes": {**_UNDO, "Which change": "entry journal topic plan everything"},
    "undo": _UNDO,
    "reassign": {
        "What to do (one of these)": "rotate drain leaders_off leader balance add replace"
        " replication_factor rack_aware plan show verify",
        "Which topics": "topic all_topics",
        "How fast": "batch between concurrent throttle timeout",
        "Asking first": "dry_run yes force additional change_factor",
        "Output": "output measure",
    },
    "elect": {"Which partitions": "topic partition broker every internal json_file"},
    "roll": {
        "How brokers are restarted (one of these)": "command manual lab",
        "Which brokers": "broker controllers",
        "A roll that has not ended": "resume abandon was_restarted",
        "How fast": "timeout exec_timeout batch between",
    },
    "perf": {
        "The load": "num_records throughput record_size payload_file payload_delimiter"
        " warmup_records producer_acks fetch_size socket_buffer_size timeout",
        "The topic": "topic topics partitions replication_factor partition offset from_latest",
        "The client": "leader_discovery client_rack group command_property producer_property"
        " consumer_property",
    },
    "tap": {
        "Where it listens": "listen advertise certificate key",
        "What it does to traffic": "delay drop_hints stale_metadata reset cap",
        "Leaders that move": "rotate until_met and_without_hints run",
    },
    "lab": {
        "The lab": "name brokers controllers racks kafka_version kafka_home host port",
        "Its nodes": "config security acl kerberos request_log metrics",
    },
    "experiment": {
        "What is compared": "arms batches acks runs scale kill stay phase gain_curve predict curve",
        "The load": "num_records throughput record_size partitions topics seconds client_rack"
        " leader_discovery every rotations restarts metadata_delay stale_metadata",
    },
    "conform": {
        "What is held against what": "preset role rules expect",
        "How it is run": "repeats start_timeout quiet_metadata",
        "Output": "output junit",
    },
    "": {
        "While it runs": "during every count forever keep lost_after metrics",
        "The guard": "spare guard guard_patience guard_quiet guard_action",
        "Asking first": "dry_run yes force",
        "Spark": "workers master conf start_timeout scratch",
        "The lab": "brokers controllers",
        "Output": "output record print_metrics show_detailed_stats reporting_interval hide_header"
        " strict save html svg help",
        "Cluster": "bootstrap_server cluster command_config expect_cluster map metrics_url",
    },
}
"""Purposes in the order in which help shows them, with the names of their options, by the first
word of a command; "" is of all commands, and stands after their own."""

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "reassign": (
        "kipctl reassign --rotate",
        "kipctl reassign --rotate --topic orders --dry-run",
        "kipctl reassign --drain 3 --throttle 50MB/s",
        "kipctl reassign --leaders-off 3 --yes",
        "kipctl reassign --rotate --all-topics --batch 20 --guard 'p99 > 50ms for 10s'",
    ),
    "changes list": ("kipctl changes list",),
    "changes show": ("kipctl changes show",),
    "changes undo": ("kipctl changes undo --dry-run", "kipctl changes undo 20261126T2107"),
    "undo": ("kipctl undo --dry-run", "kipctl undo 20261126T2107"),
    "changes resume": ("kipctl changes resume --dry-run",),
    "changes pause": ("kipctl changes pause",),
    "changes cancel": ("kipctl changes cancel", "kipctl changes cancel --topic orders"),
    "changes clear-throttles": (
        "kipctl changes clear-throttles",
        "kipctl changes clear-throttles --all --dry-run",
    ),
    "throttle set": ("kipctl throttle set 50MB/s", "kipctl throttle set 50MB/s --broker 3"),
    "throttle adapt": (
        "kipctl throttle adapt",
        "kipctl throttle adapt --guard 'p99 > 20ms' --at-least 5MB/s",
    ),
    "throttle show": ("kipctl throttle show",),
    "throttle clear": ("kipctl throttle clear",),
    "roll": (
        "kipctl roll --broker 3 --dry-run",
        "kipctl roll --exec 'ssh {host} restart-kafka' --guard 'under-min-isr > 0'",
        "kipctl roll --broker none --controllers --manual",
        "kipctl roll --resume",
    ),
    "wait": ("kipctl wait --until in-sync,preferred --timeout 600",),
    "tap": (
        "kipctl tap --listen 127.0.0.1:19092",
        "kipctl tap --listen 127.0.0.1:19092 --drop-hints --record without-hints",
        "kipctl tap --rotate orders --run './app {bootstrap}' --and-without-hints",
    ),
    "demo": ("kipctl demo",),
    "lab up": (
        "kipctl lab up --topic orders:6:3",
        "kipctl lab up --brokers 6 --controllers 3 --security sasl_ssl",
    ),
    "lab status": ("kipctl lab status",),
    "lab down": ("kipctl lab down",),
    "lab stop": ("kipctl lab stop 2",),
    "lab start": ("kipctl lab start 2",),
    "lab restart": ("kipctl lab restart 2",),
    "lab pause": ("kipctl lab pause 2",),
    "lab resume": ("kipctl lab resume 2",),
    "lab logs": ("kipctl lab logs 2 --follow",),
    "clusters list": ("kipctl clusters list",),
    "clusters show": ("kipctl clusters show east",),
    "clusters add": (
        "kipctl clusters add east --bootstrap-server kafka1:9092 --client-rack east-1",
    ),
    "clusters remove": ("kipctl clusters remove east --yes",),
    "clusters test": ("kipctl clusters test east --topic orders",),
    "elect preferred": (
        "kipctl elect preferred --topic orders --dry-run",
        "kipctl elect preferred --all --batch 100 --between 10s --yes",
        "kipctl elect preferred --broker 3 --until balanced --yes",
    ),
    "elect unclean": ("kipctl elect unclean --partition orders:3 --dry-run",),
    "inspect brokers": ("kipctl inspect brokers", "kipctl inspect brokers -o json"),
    "inspect replica-selection": (
        "kipctl inspect replica-selection --topic orders --client-rack rack-1",
    ),
    "inspect metadata": ("kipctl inspect metadata --topic orders",),
    "inspect leaders": ("kipctl inspect leaders --topic orders",),
    "inspect hints": ("kipctl inspect hints --topic orders",),
    "explain": ("kipctl explain under-min-isr", "kipctl explain"),
    "perf produce": (
        "kipctl perf produce",
        "kipctl perf produce --during rotate --record before",
        "kipctl perf produce --topic orders --force --throughput 2000",
    ),
    "perf consume": ("kipctl perf consume --topic orders",),
    "perf e2e": (
        "kipctl perf e2e",
        "kipctl perf e2e --during rotate --record moved",
        "kipctl perf e2e --forever --throughput 200 --metrics 9464 --record canary",
    ),
    "perf metadata": ("kipctl perf metadata --topics 10 --for 5s",),
    "experiment redirect": (
        "kipctl experiment redirect --quick",
        "kipctl experiment redirect --arms mine='./app {bootstrap} {topic}'",
    ),
    "experiment roll": ("kipctl experiment roll --quick",),
    "experiment closest-replica": ("kipctl experiment closest-replica --quick",),
    "experiment run": (
        "kipctl experiment run upgrade.toml --quick",
        "kipctl experiment run upgrade.toml --record upgrade --html upgrade.html",
    ),
    "experiment batch": (
        "kipctl experiment batch --quick",
        "kipctl experiment batch --batches 1,10,100 --partitions 100 --runs 5",
    ),
    "experiment metadata": ("kipctl experiment metadata --quick",),
    "conform run": (
        "kipctl conform run --preset librdkafka",
        "kipctl conform run --rules 951-1 -- python send.py {bootstrap} {topic}",
        "kipctl conform run --preset kafka-python --as consumer --expect known",
        "kipctl conform run --as proxy -- ./relay --to {upstream} --at {listen}",
    ),
    "conform broker": (
        "kipctl conform broker --bootstrap-server broker1:9092 --topic orders",
        "kipctl conform broker --rules broker-produce-endpoint,broker-fetch-endpoint",
    ),
    "conform serve": ("kipctl conform serve 951-3",),
    "conform list": ("kipctl conform list",),
    "conform explain": ("kipctl conform explain 951-1",),
    "request-log on": ("kipctl request-log on --broker 1 --for 5m",),
    "request-log off": ("kipctl request-log off --broker 1",),
    "request-log status": ("kipctl request-log status",),
    "request-log pack": ("kipctl request-log pack 'logs/broker-*' --to packed",),
    "analyze runs": ("kipctl analyze runs before --by arm,window",),
    "analyze request-log": (
        "kipctl analyze request-log kafka-request.log --by client_id",
        "kipctl analyze request-log packed --since 2026-01-31T12:00",
        "kipctl analyze request-log /var/log/kafka/kafka-request.log --follow",
    ),
    "report": ("kipctl report before", "kipctl report before after --html both.html"),
    "runs list": ("kipctl runs list",),
    "runs show": ("kipctl runs show before",),
    "runs repair": ("kipctl runs repair before",),
    "runs compare": ("kipctl runs compare before after --fail-if 'failed > +0'",),
    "runs export": ("kipctl runs export before before.csv",),
    "runs remove": ("kipctl runs remove before",),
    "spark start": ("kipctl spark start",),
    "spark status": ("kipctl spark status",),
    "spark stop": ("kipctl spark stop",),
}
"""Command lines of each command, as they can be typed; a test parses each."""


def laid_out(root: TyperGroup) -> TyperGroup:
    """Give the commands below their panels, value names and examples."""
    for path, command in commands(root):
        _group(command, path.split()[0])
        if examples := EXAMPLES.get(path):
            command.epilog = "\n".join(("Examples:", *(f"  {example}" for example in examples)))
    _word(root)
    return root


def _help_option(command: TyperCommand | TyperGroup) -> Any:
    # A command keeps the one that it is asked for first, with the names of that context.
    return command.get_help_option(Context(command, help_option_names=HELP_OPTION_NAMES))


def _group(command: TyperCommand, first: str) -> None:
    """Put its options under their purposes, both in the order of PANELS; what has none comes
    first."""
    purposes: dict[str, str] = {}
    for panels in (PANELS.get(first, {}), PANELS[""]):
        for panel, names in panels.items():
            for name in names.split():
                purposes.setdefault(name, panel)
    for parameter in (*command.params, _help_option(command)):
        if isinstance(parameter, TyperOption):
            parameter.rich_help_panel = purposes.get(parameter.name)
    panel_order, order = [*dict.fromkeys(purposes.values())], [*purposes]

    def place(parameter: Any) -> tuple[int, int]:
        panel = getattr(parameter, "rich_help_panel", None)
        return (panel_order.index(panel), order.index(parameter.name)) if panel else (-1, 0)

    command.params.sort(key=place)


def _word(command: TyperCommand | TyperGroup) -> None:
    """Name values, and let lines be as long as the terminal is wide."""
    command.help = "\n\n".join(" ".join(p.split()) for p in (command.help or "").split("\n\n"))
    for parameter in (*command.params, _help_option(command)):
        if isinstance(parameter, TyperOption):
            parameter.metavar = value_name(parameter)
    if isinstance(command, TyperGroup):
        for held in command.commands.values():
            if isinstance(held, TyperCommand | TyperGroup):
                _word(held)


def commands(group: TyperGroup, path: str = "") -> Iterator[tuple[str, TyperCommand]]:
    """Every command below, with the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{path}{name} ")
        elif isinstance(command, TyperCommand):
            yield f"{path}{name}", command


def value_name(option: TyperOption) -> str:
    """What stands for its value; empty for a flag."""
    if option.is_flag:
        return ""
    if option.metavar:
        return option.metavar
    kind = option.type_descriptor
    if kind.choices:
        return "|".join(str(getattr(choice, "value", choice)) for choice in kind.choices)
    return VALUE_NAMES.get(kind.annotation, "TEXT")


def argument_name(argument: Any) -> str:
    """What stands for its value, without what says that it may be left out or repeated."""
    return str(argument.metavar or argument.name).strip("[].")


def default_of(parameter: TyperOption | TyperArgument) -> str:
    """Its default as it is typed; empty when there is none to speak of."""
    is_flag = isinstance(parameter, TyperOption) and parameter.is_flag
    return shown_value(parameter.default) if parameter.show_default and not is_flag else ""


def shown_value(value: object) -> str:
    """A default or a choice as it is typed; empty when there is none to show."""
    match value:
        case None:
            return ""
        case Enum():
            return str(value.value)
        case list() | tuple():
            return ", ".join(map(shown_value, value))
        case _:
            return "" if callable(value) else str(value)
