"""Where Spark runs, and what its user says of it: known before any of Spark is loaded."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from kipctl.errors import UsageError

DEFAULT_MASTER = "local[*]"
START_TIMEOUT_S = 60.0
"""Until Spark runs and has an executor: a JVM here and one there, maybe on a busy machine."""
_MASTER = re.compile(
    r"local(\[([1-9]\d*|\*)(\s*,\s*\d+)?\]|-cluster\[.+\])?"
    r"|spark://[^,]+:\d+(,[^,]+:\d+)*|yarn|k8s://.+|sc://[^/;]+(/(;.*)?)?"
)
"""SparkContext.createTaskScheduler, and Spark Connect's ChannelBuilder."""
_CONNECT = "sc://"
_CONNECT_PORT = "15002"
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
        if self.is_connect and ";token=" in self.master:
            raise UsageError(
                "A token in --master is seen by all who see this machine's processes.",
                "Give it in the environment: SPARK_CONNECT_AUTHENTICATE_TOKEN.",
            )
        if not _MASTER.fullmatch(self.master):
            raise UsageError(
                f"--master {self.master!r} is no Spark master.",
                "For instance: local[2], spark://HOST:7077, yarn, k8s://https://HOST:443, sc://HOST.",
            )
        if self.is_connect and self.scratch is not None:
            raise UsageError(
                f"--scratch is not for {_CONNECT}: nothing can be removed there.",
                "Leave it out: the server's executors keep intermediate results.",
            )
        if self.scratch == "":
            raise UsageError("--scratch names no folder.", "Name one that all machines see.")

    @property
    def addresses(self) -> tuple[str, ...]:
        """HOST:PORT of each standalone master, or of a Spark Connect server; none of others."""
        if self.is_connect:
            address = self.master.removeprefix(_CONNECT).partition("/")[0]
            has_port = re.search(r":\d+$", address)
            return (address if has_port else f"{address}:{_CONNECT_PORT}",)
        text = self.master
        return tuple(text.removeprefix("spark://").split(",")) if text[:8] == "spark://" else ()

    @property
    def is_connect(self) -> bool:
        """Whether Spark is a server that is spoken to by Spark Connect."""
        return self.master.startswith(_CONNECT)

    def without_connect(self, why: str) -> Self:
        """The place. Raises UsageError of a Spark Connect server, and says why it does not do."""
        if self.is_connect:
            raise UsageError(why, "Give --master spark://HOST:PORT, or leave it out.")
        return self

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
