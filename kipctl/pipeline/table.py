"""What a table is declared as, and what the functions that make tables are given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from pyspark.sql import DataFrame

from kipctl.pipeline.actions import WINDOWS
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.inputs import ALWAYS, Trace
from kipctl.pipeline.period import Period
from kipctl.pipeline.redirects import failed_batches
from kipctl.trace.codes import PHASES

PLACEHOLDERS: Mapping[str, tuple[str, ...]] = {"<phase>": PHASES, "<window>": WINDOWS}
"""Parts of a declared column's name, and what stands there in turn."""


class Source:
    """Of what tables are made: the rows of a trace in a period.

    Of a period those batches count whose first record was due in it, redirect episodes that began
    in it, actions called, requests sent and reads answered in it; each of them whole.
    """

    def __init__(self, trace: Trace, period: Period = ALWAYS, window_us: int | None = None) -> None:
        self.trace = trace
        self.period = period
        self.window_us = window_us
        """The length of a window, where tables are broken down by it."""
        self._lock = Lock()

    def within(self, frame: DataFrame, moment: str) -> DataFrame:
        """The rows whose `moment` (a column) lies in the period."""
        return self.trace.in_period(frame, moment, self.period)

    @cached_property
    def batches(self) -> DataFrame:
        return self.within(self.trace.batches, "intended_us")

    @cached_property
    def rpcs(self) -> DataFrame:
        return self.within(self.trace.rpcs, "sent_us")

    @cached_property
    def reads(self) -> DataFrame:
        return self.within(self.trace.reads, "time_us")

    @cached_property
    def _failed(self) -> DataFrame:
        # Its plan is long: only its rows are kept.
        return failed_batches(self.trace.redirects, self.trace.actions).transform(checkpointed)

    @property
    def failed(self) -> DataFrame:
        """`redirects.failed_batches` of the whole trace; who asks meanwhile waits for it."""
        with self._lock:
            return self._failed


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns with one meaning, in Markdown. In a name, `<phase>` stands for each of PHASES, and
    `<window>` for each of WINDOWS. A name's end is its unit: `_us` microseconds, `bytes` bytes."""

    names: tuple[str, ...]
    meaning: str

    @property
    def written_out(self) -> tuple[str, ...]:
        """The names, with nothing that stands for others."""
        names = self.names
        for placeholder, values in PLACEHOLDERS.items():
            names = tuple(
                name.replace(placeholder, value)
                for name in names
                for value in (values if placeholder in name else ("",))
            )
        return names


Make = Callable[[Source, list[str]], DataFrame]
"""From the keys that it is broken down by, in order, to the table; the keys come first in it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name and title, the dataset it is of, its keys, its columns, its function.

    `by` are keys of `--by`; `always` those that are there unasked. What a key is called in the
    table, where it is not its own name, `stands_for` says. `columns` are all others.
    """

    name: str
    title: str
    dataset: str
    by: tuple[str, ...]
    always: tuple[str, ...]
    columns: tuple[Columns, ...]
    make: Make
    stands_for: Mapping[str, tuple[str, ...]] | None = None

    def keys(self, by: tuple[str, ...]) -> list[str]:
        """The keys of the table when these are asked for."""
        return [key for key in by if key in self.by] + list(self.always)

    def key_columns(self, by: tuple[str, ...]) -> list[str]:
        """What is called otherwise is written out: the columns that tell its rows apart."""
        names = self.stands_for or {}
        return [column for key in self.keys(by) for column in names.get(key, (key,))]
