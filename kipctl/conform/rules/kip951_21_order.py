"""951-21: an idempotent producer's batches stay in order."""

from types import MappingProxyType

from kipctl.conform.cluster.call import Exchange
from kipctl.conform.cluster.control import Control, Delay
from kipctl.conform.rule import HINTS, Stage
from kipctl.conform.rules.hints import NEW, NEXT_EPOCH, OLD, STALE_MS, Moved, pass_if
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status
from kipctl.counts import counted
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode

_MOVES_MS = 300.0
_SLOW_US = 100_000
_WRONG = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class Order(Moved):
    """Broker 1 takes 100 ms for each answer, so that several are in flight; then 951-1."""

    id = "951-21"
    title = "batches that were in flight are sent to the new leader in order"
    says = "Retries keep the order of an idempotent producer's sequences."
    why = "Records are refused for good, or stand in the log twice."
    least = MappingProxyType({Role.PRODUCER: HINTS[Role.PRODUCER]})
    seconds = 3.0

    def arrange(self, stage: Stage) -> None:
        if stage.ms >= _MOVES_MS:
            stage.move(NEW, NEXT_EPOCH, STALE_MS + _MOVES_MS)

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        is_slow = call.api == ApiKey.PRODUCE and call.broker == OLD and stage.ms < _MOVES_MS
        return Delay(_SLOW_US) if is_slow else None

    def judge(self, trace: Trace) -> Judgement:
        if all(s.tried.sequence < 0 for s in trace.after):
            return Judgement(Status.NOT_APPLICABLE, "It is not idempotent.")
        at_new = [s for s in trace.after if s.broker == NEW]
        wrong = sum(s.tried.error in _WRONG for s in at_new)
        if not any(s.is_good for s in at_new):
            return Judgement(Status.NOT_REACHED, f"Nothing was taken by broker {NEW}.")
        return pass_if(not wrong, f"{counted(wrong, 'batch', of=len(at_new))} came out of order.")
