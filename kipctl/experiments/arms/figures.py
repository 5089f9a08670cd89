"""The figures of a client's run, computed from what a tap recorded: the same for every client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from kipctl.documents.common import Latency
from kipctl.documents.runs import MetadataRpcs, Redirects
from kipctl.measure.client_totals import met_in
from kipctl.measure.distribution import Distribution, distribution
from kipctl.measure.moves import moves, wait_ms
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import LEADER_ERRORS, error_name
from kipctl.trace.codes import PHASES
from kipctl.trace.columns import BATCH, REDIRECT, RPC
from kipctl.trace.rows import IntRows
from kipctl.trace.run_rows import dataset, rows
from kipctl.trace.store import Run


class RecordsSettled(TypedDict):
    """Records by what became of them."""

    acknowledged: int
    failed: int
    errors: dict[str, int]


class FiguresDocument(TypedDict):
    """`redirects` and `metadata_rpcs` are those of `perf produce`."""

    latency_ms: Latency
    records: RecordsSettled
    redirects: Redirects
    metadata_rpcs: MetadataRpcs
    produce_rpcs: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one run of a producer, or of several together. Times are microseconds.

    `latencies` has a row (latency, records) for each acknowledged batch after the warm-up: from the
    creation of its first record to its acknowledgement at the tap. The other rows are of
    `trace.columns`.
    """

    latencies: IntRows
    batch_rows: IntRows
    redirect_rows: IntRows
    rpc_rows: IntRows

    def __post_init__(self) -> None:
        if self.latencies.shape[1:] != (2,):
            raise ValueError(f"latencies are rows of 2, not {self.latencies.shape}")

    @property
    def latency(self) -> Distribution:
        """Of records after the warm-up."""
        return distribution([(self.latencies[:, 0], self.latencies[:, 1])])

    def quantile_ms(self, q: float) -> float | None:
        """Of `latency`, in milliseconds; None if nothing was acknowledged after the warm-up."""
        return self.latency.quantile(q) / 1000 if len(self.latencies) else None

    @property
    def move_wait_ms(self) -> float | None:
        """The median wait for a moved leader (`kipctl.measure.moves`); None if none was met."""
        return wait_ms(moves(self.redirect_rows))

    @property
    def moves_met(self) -> int:
        """How many moved leaders refused a batch."""
        return len(moves(self.redirect_rows))

    @property
    def acknowledged(self) -> int:
        """Records, warm-up and all."""
        is_good = self.batch_rows[:, BATCH["error"]] == 0
        return int(self.batch_rows[is_good, BATCH["records"]].sum())

    @property
    def failed(self) -> Mapping[str, int]:
        """Records that failed, by the error's name."""
        error, records = (self.batch_rows[:, BATCH[name]] for name in ("error", "records"))
        codes = np.unique(error[error != 0]).tolist()
        return {error_name(code): int(records[error == code].sum()) for code in codes}

    @property
    def produce_rpcs(self) -> int:
        return int((self.rpc_rows[:, RPC["api_key"]] == ApiKey.PRODUCE).sum())

    @property
    def seconds(self) -> float:
        """From the first record's creation to the last acknowledgement."""
        if not len(self.batch_rows):
            return 0.0
        first_us = int(self.batch_rows[:, BATCH["intended_us"]].min())
        return (int(self.batch_rows[:, BATCH["acked_us"]].max()) - first_us) / 1e6

    def as_document(self) -> FiguresDocument:
        """For JSON."""
        removable, whole = removable_us(self.redirect_rows)
        met = met_in(self.redirect_rows, self.rpc_rows)
        return {
            "latency_ms": self.latency.as_ms(),
            "records": {
                "acknowledged": self.acknowledged,
                "failed": sum(self.failed.values()),
                "errors": dict(self.failed),
            },
            "redirects": {
                **met.redirects,
                "removable_percent": 100 * removable / whole if whole else None,
            },
            "metadata_rpcs": met.metadata_rpcs,
            "produce_rpcs": self.produce_rpcs,
        }


def figures(run: Run) -> Figures:
    """The figures of a recorded run, by its folder alone."""
    return figures_of(run, int(run.description.get("warmup_records", 0)))


def figures_of(run: Run, warmup_records: int) -> Figures:
    """The same, of a run that is not described yet."""
    datasets = {name: rows(dataset(run, name), name) for name in ("batches", "redirects", "rpcs")}
    latencies = latencies_of(datasets["batches"], warmup_records)
    return Figures(latencies, datasets["batches"], datasets["redirects"], datasets["rpcs"])


def pooled(runs: Sequence[Figures]) -> Figures:
    """Runs of one arm as one: every record counts the same.

    Their moves stay apart: the same partition and epoch is another move in another run. So the
    column `topic` of the redirects is the number of the run.
    """
    redirect_rows = [run.redirect_rows.copy() for run in runs]
    for number, redirects in enumerate(redirect_rows):
        redirects[:, REDIRECT["topic"]] = number
    return Figures(
        np.concatenate([run.latencies for run in runs]),
        np.concatenate([run.batch_rows for run in runs]),
        np.concatenate(redirect_rows),
        np.concatenate([run.rpc_rows for run in runs]),
    )


def latencies_of(batches: IntRows, warmup_records: int) -> IntRows:
    """Rows (latency, records) of batches: see Figures."""
    error, first_seq, intended, acked, records = (
        batches[:, BATCH[name]]
        for name in ("error", "first_seq", "intended_us", "acked_us", "records")
    )
    kept = (error == 0) & (first_seq >= warmup_records)
    latencies: IntRows = np.stack([acked - intended, records], axis=1)[kept]
    return latencies


def records_within(batches: IntRows, seconds: float) -> int:
    """How many records were due in the first so many seconds, from the first of them on."""
    if not len(batches):
        return 0
    due = batches[:, BATCH["intended_us"]]
    return int(batches[due < due.min() + seconds * 1e6, BATCH["records"]].sum())


def service(batches: IntRows, warmup_records: int) -> Distribution:
    """From a batch's first send to its acknowledgement, of records after the warm-up."""
    error, first_seq = (batches[:, BATCH[name]] for name in ("error", "first_seq"))
    kept = batches[(error == 0) & (first_seq >= warmup_records)]
    times = kept[:, BATCH["acked_us"]] - kept[:, BATCH["sent_us"]]
    return distribution([(times, kept[:, BATCH["records"]])])


def removable_us(rows: IntRows) -> tuple[int, int]:
    """Of the time of all batches that met a leader error: what a hint could take away, and all.

    A hint sends a batch to the new leader after the first error. What could go is the backoff, the
    wait for Metadata, and the refusals of old leaders after the first one.
    """
    if not len(rows):
        return 0, 0
    attempt = rows[:, REDIRECT["attempt"]]
    of_batch = np.cumsum(attempt == 1) - 1
    redirected = np.unique(of_batch[np.isin(rows[:, REDIRECT["error"]], sorted(LEADER_ERRORS))])
    mine = rows[np.isin(of_batch, redirected)]
    again = mine[mine[:, REDIRECT["attempt"]] > 1, REDIRECT["detect_us"]].sum()
    waits = mine[:, [REDIRECT["backoff_us"], REDIRECT["metadata_us"]]].sum()
    return int(again + waits), int(mine[:, [REDIRECT[f"{phase}_us"] for phase in PHASES]].sum())
