"""Moved leaders, as clients met them: how long each made the client wait.

A *move* is a partition and its new leader epoch; a topic that is deleted and made anew has
partitions and epochs of its own, though it has the old name (its id tells: Metadata 10). It is met
when a batch, or a Fetch, is refused with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH by the old
leader, or by the new one, which is not ready (it may say UNKNOWN_LEADER_EPOCH too). Its *wait* is
what the client itself took from the first refusal to the send that succeeded: backoff, and waiting
for Metadata. Of several batches that met it, the longest counts. Neither the brokers' answers nor
queues are part of it: it is what a better client could save, and what leader hints are to save
(KIP-951).

Which epoch a failed attempt waited for is the one that the client sent to next, if it was newer;
else, where a leader that was not ready refused it (it has spent time in the phase `not_ready`; see
`kipctl.trace.redirect_phases`), that leader's own; else that of the attempts after it. One that the
client never learnt makes no move.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kipctl.documents.runs import Moves
from kipctl.measure.distribution import Distribution, distribution_of
from kipctl.protocol.error_codes import LEADER_ERRORS
from kipctl.trace.codes import WAITS_BELOW_MS
from kipctl.trace.columns import REDIRECT
from kipctl.trace.rows import IntRows

MOVE_COLUMNS = (
    *("topic", "partition", "topic_generation", "epoch"),
    *("wait_us", "not_ready", "batches"),
)
_MOVE = {name: i for i, name in enumerate(MOVE_COLUMNS)}
_UNKNOWN = -1
_Truths = npt.NDArray[np.bool_]


def moves(redirects: IntRows) -> IntRows:
    """The moves that the batches (or the Fetches) of these rows met.

    Rows of MOVE_COLUMNS: `wait_us` is the wait, `not_ready` how many answers said that the new
    leader did not lead yet, `batches` how many batches met it. Of `redirects` the rows of one batch
    are together, the first attempt first.
    """
    if not len(redirects):
        return np.empty((0, len(MOVE_COLUMNS)), dtype=np.int64)
    # What failed before the topic was made anew waited for no epoch of the new one: what a batch
    # met of each stands by itself.
    batch = np.cumsum(redirects[:, REDIRECT["attempt"]] == 1)
    generation = redirects[:, REDIRECT["topic_generation"]]
    order = np.lexsort((generation, batch))
    is_next = np.diff(batch[order], prepend=0) | np.diff(generation[order], prepend=0)
    batch = np.cumsum(is_next != 0)
    columns = {name: redirects[order, column] for name, column in REDIRECT.items()}
    not_ready = columns["not_ready_us"] > 0
    refused = np.isin(columns["error"], sorted(LEADER_ERRORS)) | not_ready
    went_on = refused & (columns["to_epoch"] > columns["from_epoch"])
    epoch = np.where(not_ready, columns["from_epoch"], _UNKNOWN)
    epoch = np.where(went_on, columns["to_epoch"], epoch)
    epoch = _filled(_filled(epoch[::-1], batch[::-1])[::-1], batch)
    kept = (epoch != _UNKNOWN) & _has_been_refused(batch, refused)
    waited = columns["backoff_us"] + columns["metadata_us"]
    # By batch first: what one batch waited for a move adds up.
    which = (columns["topic"], columns["partition"], columns["topic_generation"], epoch)
    key = np.stack([*which, batch], axis=1)[kept]
    of_batches, of_row = np.unique(key, axis=0, return_inverse=True)
    of_row = of_row.reshape(-1)
    waits = np.zeros(len(of_batches), dtype=np.int64)
    np.add.at(waits, of_row, waited[kept])
    refusals = np.zeros(len(of_batches), dtype=np.int64)
    np.add.at(refusals, of_row, not_ready[kept].astype(np.int64))
    move_keys, of_batch = np.unique(of_batches[:, : len(which)], axis=0, return_inverse=True)
    of_batch = of_batch.reshape(-1)
    longest = np.zeros(len(move_keys), dtype=np.int64)
    np.maximum.at(longest, of_batch, waits)
    not_ready_in = np.zeros(len(move_keys), dtype=np.int64)
    np.add.at(not_ready_in, of_batch, refusals)
    return np.column_stack([move_keys, longest, not_ready_in, np.bincount(of_batch)])


def _has_been_refused(batch: IntRows, refused: _Truths) -> _Truths:
    """Whether the row's attempt, or one of its batch before it, was refused by a leader."""
    first = np.flatnonzero(np.diff(batch, prepend=batch[0] - 1))
    number = np.cumsum(np.diff(batch, prepend=batch[0] - 1) != 0) - 1
    upto: IntRows = np.cumsum(refused)
    before: IntRows = upto[first] - refused[first]
    is_refused: _Truths = upto > before[number]
    return is_refused


def _filled(epoch: IntRows, batch: IntRows) -> IntRows:
    """Where it is not known, the last one known of the same batch."""
    at = np.maximum.accumulate(np.where(epoch != _UNKNOWN, np.arange(len(epoch)), -1))
    same = (at >= 0) & (batch[at] == batch)
    return np.where(same, epoch[at], _UNKNOWN)


def moves_document(met: Sequence[IntRows]) -> Moves:
    """The `moves` object of JSON, from the rows of `moves` of one or several runs."""
    rows = np.concatenate([np.empty((0, len(MOVE_COLUMNS)), dtype=np.int64), *met])
    not_ready = int((rows[:, _MOVE["not_ready"]] > 0).sum())
    return waits_document(distribution_of(rows[:, _MOVE["wait_us"]]), not_ready)


def waits_document(waits: Distribution, not_ready: int) -> Moves:
    """The same from the wait of each; so many of them were refused by the new leader at first."""
    edges = [1000 * ms for ms in WAITS_BELOW_MS]
    counts = np.bincount(
        np.searchsorted(edges, waits.values, side="right"),
        weights=waits.counts,
        minlength=len(edges) + 1,
    )
    names = [*(f"below_{ms}_ms" for ms in WAITS_BELOW_MS), "longer"]
    return {
        "met": waits.total,
        "not_ready": not_ready,
        "wait_ms": {
            "p50": waits.quantile(0.5) / 1000,
            "p99": waits.quantile(0.99) / 1000,
            "max": waits.quantile(1) / 1000,
        },
        "by_wait": dict(zip(names, map(int, counts), strict=True)),
    }


def moves_sentence(document: Moves, client: str = "client", made: int = 0) -> str:
    """How many leaders were met that had moved, of those `made` to, and how long the client waited
    for each."""
    of_made = f" of {made:,}" if made and made >= document["met"] else ""
    if not document["met"]:
        return f"Moved leaders: 0{of_made} were met."
    waits = document["wait_ms"]
    return (
        f"Moved leaders: {document['met']:,}{of_made} were met; the {client} waited p50 "
        f"{waits['p50']:,.1f} ms, p99 {waits['p99']:,.1f} ms, at most {waits['max']:,.1f} ms."
    )


def moves_sentences(of_clients: Mapping[str, Moves]) -> tuple[str, ...]:
    """The same of each client that met any."""
    met = {client: moves for client, moves in of_clients.items() if moves["met"]}
    return tuple(moves_sentence(moves, client) for client, moves in met.items())


def wait_ms(met: IntRows, q: float = 0.5) -> float | None:
    """A quantile of the waits of a run, in milliseconds; None if it met no move."""
    if not len(met):
        return None
    return distribution_of(met[:, _MOVE["wait_us"]]).quantile(q) / 1000
