"""What a table is declared as, and what the functions that make tables are given."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

from pyspark.sql import DataFrame

from kipctl.pipeline.actions import WINDOWS
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.inputs import Trace
from kipctl.pipeline.period import ALWAYS, Period
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
    """Columns with one meaning, in Markdown, named as in every document (`kipctl.documents`):
    `wait_ms.p50` is within `wait_ms`. In a name, `<phase>` stands for each of PHASES, and
    `<window>` for each of WINDOWS. A name's end is its unit: `_ms` milliseconds, `bytes` bytes."""

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

    def documented(self, source: Source, keys: list[str]) -> DataFrame:
        """The table as it is declared: its keys, then its columns, times in milliseconds."""
        made = self.make(source, keys)
        own = [column for column in made.columns if column in self.key_columns(tuple(keys))]
        names = (name for columns in self.columns for name in columns.written_out)
        parts = _parts(name for name in names if name not in own).items()
        # As text, which is one call of the JVM for all.
        declared = (f"{_declared(name, nested, made.columns)} as {name}" for name, nested in parts)
        return made.selectExpr(*own, *declared)


_Parts = dict[str, "_Parts"]


def _parts(names: Iterable[str]) -> _Parts:
    """Names as a tree: `wait_ms.p50` is `p50` within `wait_ms`."""
    tree: _Parts = {}
    for name in names:
        at = tree
        for part in name.split("."):
            at = at.setdefault(part, {})
    return tree


def _declared(name: str, within: _Parts, columns: Collection[str]) -> str:
    """A declared column of those that a table is computed with: `wait_ms.p50` of `wait_p50_us` (or
    of `p50_us`, where there is but one), `hints.stale` of `hints_stale`, `by_wait.longer` of
    `longer`."""
    if within:
        inner = (
            f"'{part}', {_declared(f'{name}.{part}', nested, columns)}"
            for part, nested in within.items()
        )
        return f"named_struct({', '.join(inner)})"
    head, _, part = name.rpartition(".")
    prefix = head.rpartition(".")[2].removesuffix("_ms")
    for as_it_is in (part, f"{prefix}_{part}"):
        if as_it_is in columns:
            return as_it_is
    plain = f"{part.removesuffix('_ms')}_us"
    return f"{f'{prefix}_{plain}' if f'{prefix}_{plain}' in columns else plain} / 1000"
