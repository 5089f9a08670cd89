"""What rules about leader hints share: the leader that moves, and when the client goes there."""

from collections.abc import Iterable

from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Control, Delay, Refusal
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.protocol.api import ApiKey

OLD, NEW, OTHER = 1, 2, 3
"""The brokers of most rules: who led, who leads, and who has to do with neither."""
EPOCH, NEXT_EPOCH = 5, 6
_ONE_RETRY_MS = 10.0
STALE_MS = 1500.0
"""So long Metadata still shows the old leader."""


def slow_metadata(call: Exchange) -> Control | None:
    """Metadata takes half a second: what is done before is done for the hint."""
    return Delay(500_000) if call.api == ApiKey.METADATA else None


class Moved(Rule):
    """Broker 2 leads in epoch 6, broker 1 says so, and Metadata hears of it late."""

    def arrange(self, stage: Stage) -> None:
        stage.move(NEW, NEXT_EPOCH, STALE_MS)

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        # By itself a broker says FENCED_LEADER_EPOCH to a consumer that knows the epoch before.
        leader = stage.cluster.leaders[stage.place]
        if attempt.broker != OLD or leader.id == OLD:
            return None
        return stage.hint(leader)

    def judge(self, trace: Trace) -> Judgement:
        return first_request(trace, NEW)


def first_request(trace: Trace, broker: int) -> Judgement:
    """By when the client's first request that is served came to a broker, from the refusal on."""
    if trace.first_at(broker) is None:
        return Judgement(Status.FAIL, f"It never asked broker {broker}.")
    ms = next((s.ms for s in trace.after if s.broker == broker and s.is_good), None)
    if ms is None:
        return Judgement(Status.FAIL, f"It asked broker {broker}, and was never served there.")
    seen = f"It asked broker {broker} after {milliseconds(ms)}"
    if ms <= trace.at_once_ms:
        return Judgement(Status.PASS, f"{seen}.")
    if ms <= trace.slow_ms:
        return Judgement(Status.SLOW, f"{seen}; at once is {milliseconds(trace.at_once_ms)} here.")
    return Judgement(Status.FAIL, f"{seen}; the most is {milliseconds(trace.slow_ms)} here.")


def asked_within(
    trace: Trace, broker: int, pass_ms: float, slow_ms: float, is_served: bool = False
) -> Judgement:
    """By when it asked a broker first, or was served there: PASS and SLOW until so many ms."""
    asked = (s.ms for s in trace.after if s.broker == broker and (s.is_good or not is_served))
    ms = next(asked, None)
    verb = f"was served by broker {broker}" if is_served else f"asked broker {broker}"
    if ms is None:
        return Judgement(Status.FAIL, f"It never {verb}.")
    within = ((Status.PASS, pass_ms), (Status.SLOW, slow_ms))
    status = next((status for status, most in within if ms <= most), Status.FAIL)
    return Judgement(status, f"It {verb} after {milliseconds(ms)}.")


def retries(times: Iterable[float]) -> int:
    """How often it tried again: batches that come within 10 ms of each other are one retry."""
    last, count = -_ONE_RETRY_MS, 0
    for ms in times:
        count += ms - last >= _ONE_RETRY_MS
        last = ms
    return count


def pass_if(holds: object, seen: str) -> Judgement:
    """PASS or FAIL."""
    return Judgement(Status.PASS if holds else Status.FAIL, seen)


def milliseconds(ms: float) -> str:
    """A time, in milliseconds."""
    return f"{ms:,.0f} ms"
