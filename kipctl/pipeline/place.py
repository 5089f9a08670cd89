"""Where Spark runs, and what its user says of it: known before any of Spark is loaded."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kipctl.errors import UsageError

DEFAULT_MASTER = "local[*]"
START_TIMEOUT_S = 60.0
"""Until Spark runs and has an executor: a JVM here and one there, maybe on a busy machine."""
_MASTER = re.compile(
    r"local(\[([1-9]\d*|\*)(\s*,\s*\d+)?\]|-cluster\[.+\])?"
    r"|spark://[^,]+:\d+(,[^,]+:\d+)*|yarn|k8s://.+"
)
"""SparkContext.createTaskScheduler."""
_OPTIONS = {"spark.master": "--master", "spark.kipctl.scratch": "--scratch"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where Spark runs.

    `conf` holds settings of Spark's by name, which come before those of its own configuration.
    `start_timeout_s` is how long to wait for the first executor of a cluster. Intermediate results
    of a cluster are written below `scratch`, a folder that all of its machines see; without one its
    executors keep them. Raises UsageError for a master that is no address.
    """

    master: str = DEFAULT_MASTER
    conf: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = START_TIMEOUT_S
    scratch: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if not _MASTER.fullmatch(self.master):
            raise UsageError(
                f"--master {self.master!r} is no Spark master.",
                "For instance: local[2], spark://HOST:7077, yarn, k8s://https://HOST:443.",
            )
        if self.scratch == "":
            raise UsageError("--scratch names no folder.", "Name one that all machines see.")

    @property
    def standalone_addresses(self) -> tuple[str, ...]:
        """HOST:PORT of each standalone master; none of other kinds."""
        text = self.master
        return tuple(text.removeprefix("spark://").split(",")) if text[:8] == "spark://" else ()

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in the JVM that this process starts, and nowhere else."""
        return is_local(self.master)


def is_local(master: str) -> bool:
    """Whether a master is this machine alone."""
    return master == "local" or master.startswith("local[")


def parse_conf(options: Sequence[str]) -> dict[str, str]:
    """Settings given as `KEY=VALUE`. Raises UsageError."""
    settings = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(
                f"--conf {text!r} is no setting of Spark's.",
                "Write it as --conf spark.executor.memory=4g.",
            )
        if option := _OPTIONS.get(name):
            raise UsageError(f"--conf {name} has an option of its own.", f"Use {option}.")
        settings[name] = value
    return settings
