"""What spoils a run: its numbers say something else than they seem to. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kipctl.counts import counted
from kipctl.machine import MAX_BUSY
from kipctl.measure.distribution import Distribution
from kipctl.next_step import Command

MIN_MOVES = 20
"""Fewer say little of how long moved leaders make a client wait."""
_MORE_MOVES = (
    "their waits say little; let more leaders move in each run, or send to more partitions."
)
FEW_MOVES = "few-moves"
_LEAST_LAG_MS = 1.0
_LAG_SHARE = 0.1
_COLD_RATIO = 2.0
_COLD_LEAST_MS = 1.0
_LEAST_RECORDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known of a run besides its result; None for what is not. Times in milliseconds.

    `measured_p99_ms` is the p99 of what was measured; `loop_lag_ms` the p99 of how much later than
    it should have, by the clock, a client went on (the latest of several); `first` and `last`
    service times (in microseconds) of the first fifth and the last two fifths of the records;
    `busy` the share of this machine's CPU time that was used; `moves` how many moved leaders were
    met, None if none was to be moved; `is_answered` whether brokers answer at all (not with
    acks=0).
    """

    measured_p99_ms: float
    loop_lag_ms: float | None = None
    first: Distribution | None = None
    last: Distribution | None = None
    busy: float | None = None
    moves: int | None = None
    is_answered: bool = True


def doubts(run: Observed) -> tuple[str, ...]:
    """What spoils the run, each in a sentence that says what to do, with the command that says
    more: its id never changes."""
    return tuple(f"{says} {_more(name)}" for name, says in _doubts(run))


def _more(name: str) -> str:
    return "More: " + Command("explain", name)


def _doubts(run: Observed) -> Iterator[tuple[str, str]]:
    """The name of each, and what it says."""
    if is_late(run.loop_lag_ms, run.measured_p99_ms):
        yield (
            "client-late",
            f"The client itself went on up to {run.loop_lag_ms:.1f} ms late (p99): use a machine "
            "that has less to do, a lower --throughput, or --workers.",
        )
    if run.busy is not None and run.busy > MAX_BUSY:
        yield (
            "machine-busy",
            f"This machine was {100 * run.busy:.0f} % busy: what is measured is also waiting for a "
            "core.",
        )
    if run.first and run.last and min(run.first.total, run.last.total) >= _LEAST_RECORDS:
        first_ms, last_ms = (times.quantile(0.5) / 1000 for times in (run.first, run.last))
        if first_ms >= _COLD_RATIO * last_ms and first_ms - last_ms >= _COLD_LEAST_MS:
            yield (
                "brokers-cold",
                f"Brokers were still warming up: service time fell from {first_ms:.1f} to "
                f"{last_ms:.1f} ms (p50): leave the beginning out with --warmup-records, or do "
                "before it, with the same --during, a run of 10 s that does not count.",
            )
    if run.moves is not None and not run.is_answered:
        yield (
            "acks-0",
            "With acks=0 no answer refuses a batch: moved leaders are not met, and what they cost "
            "is not seen. Use acks=1 or acks=all.",
        )
    elif run.moves is not None and run.moves < MIN_MOVES:
        yield (
            "few-moves",
            f"Only {counted(run.moves, 'moved leader', 'were')} met, {MIN_MOVES} are wanted: let"
            " more of them "
            "move, or send to more partitions.",
        )


def few_moves(met: Mapping[str, Sequence[int]]) -> str | None:
    """The beginning of a sentence that names those (arms, or sides) of which a run met too few
    moved leaders, with what each of its runs met; None if there is none.

    What is compared is one value of each run (`kipctl.verdict`): a run of few moves has a median
    that says little, however many the others met.
    """
    few = {name: of_runs for name, of_runs in met.items() if min(of_runs, default=0) < MIN_MOVES}
    if not few:
        return None
    named = "; ".join(f"{name} {' | '.join(map(str, of_runs))}" for name, of_runs in few.items())
    return f"Few moved leaders were met in a run ({named}; {MIN_MOVES} are wanted in each)"


def few_moves_doubts(met: Mapping[str, Sequence[int]], remedy: str = _MORE_MOVES) -> list[str]:
    """`few_moves` as the doubts of runs that stand beside each other, with what lets clients meet
    more of them; without any doubt none."""
    few = few_moves(met)
    return [f"{few}: {remedy} {_more(FEW_MOVES)}"] if few else []


def is_late(loop_lag_ms: float | None, measured_p99_ms: float) -> bool:
    """Whether a client's own lateness is seen in what it measured."""
    return loop_lag_ms is not None and loop_lag_ms >= max(
        _LEAST_LAG_MS, _LAG_SHARE * measured_p99_ms
    )
