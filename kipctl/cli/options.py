"""Options that several commands share, written once."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from kipctl.cli.combinations import combined
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.pipeline.place import Place, parse_conf
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.report.formats import OutputFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kipctl.cli.environment import Environment
    from kipctl.transport.request import Cluster

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def finite(value: float | None) -> float | None:
    """A callback for numbers: `nan` and `inf` are floats to the parser, and no quantities."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number to count with.")
    return value


def option(*names_and_help: str, value: str | None = None, **settings: Any) -> Any:
    """An option of a command, or of a group of options: how it is spelled, if not as its parameter
    or field, and last what help says of it.

    `value` stands for its value there; the rest is Typer's.
    """
    *names, help = names_and_help
    return typer.Option(*names, metavar=value, help=help, **settings)


def argument(value: str, help: str | None = None) -> Any:
    """An argument of a command: the word that stands for it, and what help says of it."""
    return typer.Argument(metavar=value, help=help, show_default=False)


def duration_option(*names_and_help: str) -> Any:
    """One that is a time above 0; a bare number is seconds."""
    return option(*names_and_help, value="DURATION", parser=lambda text: _over_zero(_parsed(text)))


def pause_option(*names_and_help: str) -> Any:
    """The same where 0 means none."""
    return option(*names_and_help, value="DURATION", parser=_parsed)


def milliseconds_option(*names_and_help: str) -> Any:
    """The same for options of Kafka's own tools, where a bare number is milliseconds."""
    return option(
        *names_and_help, value="MS|DURATION", parser=lambda text: _over_zero(_parsed(text, "ms"))
    )


def _parsed(text: str, unit: str = "s") -> Duration:
    if isinstance(text, Duration):
        return text  # an option's default
    try:
        return Duration.parse(text, unit)
    except UsageError as wrong:
        raise typer.BadParameter(str(wrong)) from None


def _over_zero(seconds: Duration) -> Duration:
    if not seconds:
        raise typer.BadParameter("it has to be more than 0.")
    return seconds


BootstrapOption = Annotated[
    str | None,
    option(
        "Brokers to ask first. Default: KIPCTL_BOOTSTRAP_SERVER, else the running lab.",
        value="HOST:PORT,...",
    ),
]
OutputOption = Annotated[
    OutputFormat,
    option(
        "--output",
        "-o",
        "table, wide (all of it), plain, markdown, json, csv.",
        value="FORMAT",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class ClusterOptions:
    """Of a command that asks a cluster: which one, and how what it says is printed."""

    bootstrap_server: BootstrapOption = None
    output: OutputOption = OutputFormat.AUTO

    def connected(self, environment: "Environment", timeout_s: float = 30.0) -> "Cluster":
        """The cluster, to be closed by `with`; a request to a broker takes so long at most.

        Raises what `Environment.access` raises.
        """
        from kipctl.transport.request import Cluster

        return Cluster(environment.access(self.bootstrap_server), timeout_s=timeout_s)


DryRunOption = Annotated[bool, option("Show what would be done, and change nothing.")]
YesOption = Annotated[bool, option("--yes", "-y", "Do not ask before changing things.")]
SinceOption = Annotated[
    str | None, option("Leave out what is earlier: 10s after the start, or a time.", value="TIME")
]
BeforeOption = Annotated[str | None, option("Leave out what is later.", value="TIME")]
HtmlOption = Annotated[
    Path | None, option("Write a page there, in place of an older one.", value="FILE")
]
ConfOption = Annotated[
    list[str] | None,
    option(
        "A setting of Spark's, before those of its own configuration; repeatable.",
        value="KEY=VALUE",
    ),
]
StartTimeoutOption = Annotated[
    Duration, duration_option("How long to wait for the first executor of a cluster.")
]
LeaderDiscoveryOption = Annotated[
    LeaderDiscovery,
    option(
        "How the new leader is found: by the broker's hint, by a Metadata refresh at "
        "once, or as clients before KIP-951 did."
    ),
]
RecordOption = Annotated[
    str | None,
    option(
        "Keep the run's trace: a name is one in the run store (kipctl runs), anything "
        "with a / is a folder.",
        value="NAME|DIR",
    ),
]
PartitionsOption = Annotated[int, option("Of the topic that is made for the run.")]
RecordSizeOption = Annotated[int, option("Bytes of a record's value.")]
ThroughputOption = Annotated[float, option("Records per second.", callback=finite)]
InTurnThroughputOption = Annotated[
    float, option("Records per second, to the topics in turn.", callback=finite)
]
PhaseSecondsOption = Annotated[
    Duration, duration_option("--for", "How long steady and leader-changes last.")
]


def record_folder(text: str | None, variables: Mapping[str, str]) -> Path | None:
    """The new folder that `--record` means, if it was given. Raises UsageError."""
    from kipctl.trace.store import require_new
    from kipctl.trace.stored_runs import folder_of

    if text is None:
        return None
    folder = folder_of(text, variables)
    require_new(folder)
    return folder


ReportingIntervalOption = Annotated[Duration, milliseconds_option("Between progress lines.")]
ClientRackOption = Annotated[
    str | None, option("Where the consumer is (client.rack).", value="RACK")
]
MetricsUrlOption = Annotated[
    list[str] | None, option("A broker's JMX exporter; repeatable, one per broker.", value="URL")
]
ShownBrokerOption = Annotated[
    list[int] | None, option("Only this broker; repeatable.", value="BROKER", min=0)
]
TopicOption = Annotated[list[str] | None, option("A topic or glob; repeatable.", value="TOPIC")]
BatchOption = Annotated[int, option("Partitions at a time.", value="N", min=1, max=10_000)]
BetweenOption = Annotated[Duration, pause_option("Between two batches.")]


_RATE_OF_OTHERS = re.compile(r"(\d+(?:\.\d+)?) ?([kKMG])(i?)(B|bit|bits|bps)(?:/s|ps)?")
"""As 10MB, 10MiB/s, 80Mbit/s or 100Mbps; 10mb/s may be bits or bytes."""


def _rate_meant(text: str) -> str:
    if not (near := _RATE_OF_OTHERS.fullmatch(text.strip())):
        return ""
    number, prefix, is_binary, unit = near.groups()
    rate = float(number) * (1024 if is_binary else 1000) ** (
        "kMG".index(prefix.replace("K", "k")) + 1
    )
    return f" Did you mean {rate / (1 if unit == 'B' else 8) / 1000:.0f}kB/s?"


def parse_rate(text: str) -> int:
    """Bytes per second in a rate such as `50MB/s` (decimal: 50,000,000). Raises UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)B/s", text.strip(), re.ASCII)
    rate = round(float(match[1]) * _UNITS[match[2]]) if match else 0
    if not rate:
        raise UsageError(
            f"{text!r} is not a rate.{_rate_meant(text)}", "Write it as 50MB/s, 800kB/s or 1.5GB/s."
        )
    return rate


class Load(NamedTuple):
    """How much a producer sends, and how often something is done meanwhile."""

    records: int
    warmup: int
    every_s: float


@dataclass(frozen=True)
class LoadOptions:
    """What a producer sends, and where to."""

    num_records: Annotated[int | None, option("Records to send; default those of 30 seconds.")] = (
        None
    )
    throughput: Annotated[
        float, option("Records per second; -1 for as many as possible.", callback=finite)
    ] = 1000
    warmup_records: Annotated[
        int | None,
        option(
            "First records, left out of the times; default those of 5 seconds without "
            "--num-records, none with it."
        ),
    ] = None
    topic: Annotated[
        str | None,
        option(
            "Default: one that is made for the run (kipctl-perf-...) and removed after it.",
            value="TOPIC",
        ),
    ] = None
    replication_factor: Annotated[int, option("Of that topic; 0: 3, or all brokers if fewer.")] = 0

    def load(self, every_s: float | None, count: int) -> Load:
        """What was given, and what is usual of the rest."""
        from kipctl.load.plan import default_every_s, usual_records

        records, warmup = usual_records(self.throughput)
        if self.num_records is not None:
            records, warmup = self.num_records, 0
        if self.warmup_records is not None:
            warmup = self.warmup_records
        if every_s is None:
            every_s = default_every_s(records, self.throughput, count)
        return Load(records, warmup, every_s)


@combined(needs={"--every": "--during", "--count": "--during"})
@dataclass(frozen=True)
class RunOptions(ClusterOptions):
    """Of every measured run: what is done meanwhile, who runs it, and what is said of it."""

    leader_discovery: LeaderDiscoveryOption = LeaderDiscovery.KIP951
    during: Annotated[
        str | None,
        option(
            "Done to the cluster meanwhile: rotate, elect, reassign or restart:BROKER.",
            value="ACTION",
        ),
    ] = None
    every: Annotated[
        Duration | None,
        duration_option("Between two such actions; default 5s, or what fits into the load."),
    ] = None
    count: Annotated[int, option("How many actions; 0 until the records are through.")] = 0
    record: RecordOption = None
    yes: YesOption = False
    workers: Annotated[
        int, option("Share records and partitions among N workers on Spark.", value="N")
    ] = 1
    master: Annotated[
        str | None,
        option(
            "The Spark that runs the workers, as spark://HOST:PORT; this machine by default.",
            value="URL",
        ),
    ] = None
    conf: ConfOption = None
    force: Annotated[
        bool,
        option(
            "Produce to a topic that holds records; give workers a login over a Spark that"
            " does not encrypt."
        ),
    ] = False
    start_timeout: StartTimeoutOption = Duration(60)
    print_metrics: Annotated[bool, option("Print every number of the result.")] = False
    strict: Annotated[
        bool,
        option(
            "End with status 7 if something spoils the run: cold brokers, a busy machine, a "
            "client that is late, too few moved leaders."
        ),
    ] = False

    def of_plan(self, every_s: float, environment: "Environment") -> dict[str, Any]:
        """What these options say of a `RunPlan`. Raises UsageError."""
        from kipctl.load.actions import parse_action
        from kipctl.redaction import words_without_secrets

        return {
            "during": None if self.during is None else parse_action(self.during),
            "every_s": every_s,
            "count": self.count,
            "record": record_folder(self.record, environment.variables),
            "workers": self.workers,
            "master": self.master,
            "conf": parse_conf(self.conf or []),
            "force": self.force,
            "start_timeout_s": self.start_timeout,
            "command": words_without_secrets(environment.arguments),
        }


TimezoneOption = Annotated[
    list[str] | None,
    option(
        "Of the brokers' clocks, or of those whose logs are at PATH. Default: UTC.",
        value="[PATH=]ZONE",
    ),
]


@dataclass(frozen=True)
class SparkOptions:
    """Where an analysis runs."""

    master: Annotated[
        str, option("Where Spark runs: local[N], spark://HOST:PORT, yarn, sc://HOST.", value="URL")
    ] = "local[*]"
    conf: ConfOption = None
    start_timeout: StartTimeoutOption = Duration(60)
    scratch: Annotated[
        str | None,
        option(
            "A folder that all machines of a cluster see, for intermediate results; they are "
            "removed at the end. Without it executors keep them.",
            value="URI",
        ),
    ] = None

    @property
    def place(self) -> Place:
        """Where that is. Raises UsageError."""
        return Place(self.master, parse_conf(self.conf or []), self.start_timeout, self.scratch)


@contextmanager
def started_spark(
    environment: "Environment",
    place: Place,
    inputs: Sequence[str],
    *,
    compiles: bool = False,
    ships_python: bool = False,
    follows: bool = False,
) -> "Iterator[SparkSession]":
    """A session of Spark for what reads these inputs, or `follows` them, and does not say then what
    Spark is at. Raises UsageError, and what Spark does."""
    from kipctl.pipeline.inputs import is_little
    from kipctl.pipeline.session import spark_session

    with (
        environment.progress(
            f"{'Following with' if follows else 'Starting'} Spark on {place.master}."
        ) as progress,
        spark_session(
            place,
            (lambda _: None) if follows else progress,
            is_light=not follows and is_little(inputs),  # what is followed grows
            compiles=compiles,
            inputs=inputs,
            ships_python=ships_python,
            # By a setting of its own it has a JVM of its own: one that is kept warm is not held.
            settings={"spark.sql.streaming.ui.enabled": "false"} if follows else None,
        ) as spark,
    ):
        yield spark
