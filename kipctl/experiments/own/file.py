"""`experiment run FILE`: what a TOML file says is to be measured."""

import math
import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from kipctl.errors import UsageError, did_you_mean
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.command_arm import CommandArm
from kipctl.experiments.arms.experiment import MOVE_WAIT, Measure, Measures
from kipctl.experiments.arms.names import parse_arm
from kipctl.experiments.arms.tapped import ROUND_ROBIN, ArmRun, Conditions, Load
from kipctl.lab.properties import DEFAULT_KAFKA_VERSION
from kipctl.load.actions import parse_action
from kipctl.load.plan import OWN_TOPIC, RunPlan, check_least, usual_rate
from kipctl.verdict import LEAST_RUNS

MEASURES: Measures[ArmRun] = {
    "move_wait": Measure(MOVE_WAIT, lambda run: run.figures.move_wait_ms),
    "p50": Measure("records, p50", lambda run: run.figures.quantile_ms(0.5)),
    "p99": Measure("records, p99", lambda run: run.figures.quantile_ms(0.99)),
    "p999": Measure("records, p99.9", lambda run: run.figures.quantile_ms(0.999)),
}
"""What arms can be compared by, all in milliseconds: the median wait for a moved leader, and how
long records took."""
_QUIET_S = 0.5
"""Of the time before the first action, what is not warm-up."""


class LoadTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[load]`: what every client sends. Sizes in bytes, times in seconds, rates per second."""

    throughput: int = msgspec.field(default_factory=lambda: usual_rate(os.cpu_count() or 1))
    seconds: float = 12.5
    record_size: int = 1000
    partitions: int = 60
    acks: str = "all"


class DuringTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[during]`: what is done meanwhile, as `--during` has it, or "none"; times in seconds.

    The first is done after `every` seconds: what is sent before is warm-up.
    """

    action: str = "rotate"
    every: float = 2.5
    metadata_delay: float = 0.0
    stale_metadata: float = 0.0


class LabTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[lab]`: the cluster that is made, where none is named."""

    brokers: int = 3
    controllers: int = 1
    kafka: str = DEFAULT_KAFKA_VERSION


class ArmTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[[arm]]`: a `client` as in `experiment redirect --arms`, or a `command`; settings by the
    client's own names; `kafka`: brokers of a version of their own."""

    name: str
    client: str = ""
    command: tuple[str, ...] = ()
    settings: dict[str, str | int | float | bool] = {}
    kafka: str = ""

    @property
    def arm(self) -> Arm:
        """Raises UsageError."""
        if bool(self.client) == bool(self.command):
            raise UsageError(f"Arm {self.name!r} has to have a client or a command.")
        settings = tuple((name, _text(value)) for name, value in self.settings.items())
        arm: Arm = (
            CommandArm(name=self.name, words=self.command)
            if self.command
            else parse_arm(self.client)
        )
        if settings and arm.only_produces:
            raise UsageError(
                f"Arm {self.name!r} is a program: what its settings are called is not known.",
                "Make it a command of your own, with the settings in it.",
            )
        return replace(arm, name=self.name, settings=settings)


class ExperimentFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The whole file. The first arm is the one that the others are compared with."""

    arm: tuple[ArmTable, ...]
    title: str = ""
    runs: int = LEAST_RUNS
    warmup: float = 15.0
    """Seconds of load before the first run, on each cluster: brokers compile what they do."""
    measures: tuple[str, ...] = tuple(MEASURES)
    load: LoadTable = LoadTable()
    during: DuringTable = DuringTable()
    lab: LabTable = LabTable()


@dataclass(frozen=True, slots=True)
class OwnArm:
    """An arm, and the version of Kafka whose brokers it meets."""

    arm: Arm
    kafka: str


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """A file that makes sense."""

    file: ExperimentFile
    arms: tuple[OwnArm, ...]

    @property
    def kafka_versions(self) -> tuple[str, ...]:
        """Of the clusters that are needed."""
        return tuple(dict.fromkeys(arm.kafka for arm in self.arms))

    @property
    def quick(self) -> "OwnPlan":
        """With one run of each arm: it shows what comes, and decides nothing."""
        return replace(self, file=msgspec.structs.replace(self.file, runs=1, warmup=4.0))

    @property
    def load(self) -> Load:
        """What every arm's client sends."""
        load, during = self.file.load, self.file.during
        warmup_s = max(0.0, during.every - _QUIET_S)
        return Load(
            topic=OWN_TOPIC,
            num_records=max(1, round(load.throughput * load.seconds)),
            throughput=load.throughput,
            record_size=load.record_size,
            partitions=load.partitions,
            warmup_records=round(load.throughput * warmup_s),
            properties={
                "acks": load.acks,
                "enable.idempotence": str(load.acks == "all").lower(),
                "linger.ms": "0",
                "partitioner.class": ROUND_ROBIN,  # every partition, so that every move is met
            },
        )

    @property
    def actions(self) -> RunPlan:
        """What is done meanwhile."""
        during = self.file.during
        if during.action == "none":
            return RunPlan()
        return RunPlan(during=parse_action(during.action), every_s=during.every)

    @property
    def conditions(self) -> Conditions:
        """What the tap does to all arms alike."""
        during = self.file.during
        return Conditions(
            metadata_delay_us=round(during.metadata_delay * 1e6),
            stale_metadata_us=round(during.stale_metadata * 1e6),
        )


def read_experiment(path: Path) -> OwnPlan:
    """The file. Raises UsageError for what cannot be read, or makes no sense."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        file = msgspec.convert(document, ExperimentFile)
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: it is not TOML: {error}.") from None
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path}: {error}.", "What a file has is in docs/experiments.md."
        ) from None
    _check(file)
    arms = tuple(OwnArm(arm.arm, arm.kafka or file.lab.kafka) for arm in file.arm)
    fixed = {arm.arm.own_record_size for arm in arms} - {0, file.load.record_size}
    if fixed:
        raise UsageError(
            f"Some arms send records of {min(fixed)} bytes, whatever is asked for.",
            f"Ask for as many of all: load.record_size = {min(fixed)}.",
        )
    plan = OwnPlan(file, arms)
    _ = plan.actions
    return plan


def _check(file: ExperimentFile) -> None:
    names = [arm.name for arm in file.arm]
    if len(names) < 2:
        raise UsageError("An experiment has two arms or more: [[arm]].")
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"The arm {min(twice)!r} is named twice.")
    if odd := [name for name in names if not name or "/" in name]:
        raise UsageError(f"{odd[0]!r} is no name for an arm.")
    for measure in file.measures:
        if measure not in MEASURES:
            near = did_you_mean(measure, tuple(MEASURES))
            raise UsageError(
                f"{measure!r} is no measure.{near}", f"There are {', '.join(MEASURES)}."
            )
    if file.load.acks not in ("all", "1"):
        raise UsageError(f"acks is {file.load.acks!r}; it is all or 1.")
    during = file.during
    for seconds in (
        file.warmup,
        file.load.seconds,
        during.every,
        during.metadata_delay,
        during.stale_metadata,
    ):
        if not math.isfinite(seconds):
            raise UsageError(f"{seconds} is no number of seconds.")
    check_least(
        ("runs", file.runs, 1),
        ("load.throughput", file.load.throughput, 1),
        ("load.record_size", file.load.record_size, 1),
        ("load.partitions", file.load.partitions, 1),
        ("warmup", file.warmup, 0),
        ("during.metadata_delay", during.metadata_delay, 0),
        ("during.stale_metadata", during.stale_metadata, 0),
    )
    if during.every <= 0:
        raise UsageError("during.every must be above 0.")
    if file.load.seconds <= during.every:
        raise UsageError(
            f"Records are sent for {file.load.seconds:g} s: all of them are warm-up.",
            "Make load.seconds longer than during.every.",
        )


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
