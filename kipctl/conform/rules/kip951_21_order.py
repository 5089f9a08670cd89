"""951-21: an idempotent producer's batches stay in order."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from types import MappingProxyType

from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Control, Delay
from kipctl.conform.cluster.log import Batch, records_in
from kipctl.conform.rule import HINTS, Stage
from kipctl.conform.rules.hints import NEW, OLD, STALE_MS, Moved
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status
from kipctl.counts import counted
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode

_MOVES_MS = 300.0
_SLOW_US = 100_000
Record = tuple[int, bytes]
_WRONG = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class Order(Moved):
    """Broker 1 takes 100 ms for each answer, so that several are in flight; then 951-1. What counts
    are the answers of the new leader, and what the log has in the end: records that came before
    the last one in it are each in it once, in the order of their sequences."""

    id = "951-21"
    title = "batches that were in flight are sent to the new leader in order, once each"
    says = "Retries keep the order of an idempotent producer's sequences."
    why = "Records are refused for good, are lost, or stand in the log twice or in another order."
    least = MappingProxyType({Role.PRODUCER: HINTS[Role.PRODUCER]})
    seconds = 3.0

    def arrange(self, stage: Stage) -> None:
        if stage.ms >= _MOVES_MS:
            self.move(stage, STALE_MS + _MOVES_MS)

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        is_slow = call.api == ApiKey.PRODUCE and call.broker == OLD and stage.ms < _MOVES_MS
        return Delay(_SLOW_US) if is_slow else None

    def judge(self, trace: Trace) -> Judgement:
        if all(s.tried.sequence < 0 for s in trace.after):
            return Judgement(Status.NOT_APPLICABLE, "It is not idempotent.")
        at_new = [s for s in trace.after if s.broker == NEW]
        if not any(s.is_good for s in at_new):
            return Judgement(Status.NOT_REACHED, f"Nothing was taken by broker {NEW}.")
        wrong = [s.ms for s in at_new if s.tried.error in _WRONG]
        faults = log_faults([e.tried[trace.place] for e in trace.asked], trace.log)
        seen = f"{counted(len(wrong), 'batch', total=len(at_new))} came out of order; of the log, "
        seen += ", ".join(f"{counted(count, 'record')} {what}" for what, count in faults.items())
        # One that overtakes those that are still with the old leader is refused, and sent again.
        status = Status.SLOW if wrong else Status.PASS
        if any(faults.values()):
            status = Status.FAIL
        return Judgement(status, f"{seen}.", wrong[0] if wrong else None)


def log_faults(sent: Iterable[Attempt], log: Iterable[Batch]) -> dict[str, int]:
    """How many records of an idempotent producer a log lacks, has twice, and has out of order.

    A record is told by its timestamp and its bytes: a producer that takes another id or epoch
    numbers what it sends again anew. What comes after the last one in the log is under way still.
    """
    numbered: dict[tuple[int, int], dict[int, Record]] = {}
    for tried in sent:
        records = enumerate(records_in(tried.content), tried.sequence)
        numbered.setdefault(tried.producer, {}).update(records)
    copies, order = Counter[Record](), dict[Record, int]()
    for by_sequence in numbered.values():
        copies |= Counter(by_sequence.values())
        for _, record in sorted(by_sequence.items()):
            order.setdefault(record, len(order))
    there = Counter(record for batch in log for record in records_in(batch.content))
    places = [order[record] for record in there if record in order]
    last = max(places, default=-1)
    return {
        "lost": sum(at < last and record not in there for record, at in order.items()),
        "twice": (there - copies).total(),
        "out of order": sum(later < at for at, later in pairwise(places)),
    }
