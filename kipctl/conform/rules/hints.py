"""What rules about leader hints share: the leader that moves, and when the client goes there."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar

from kipctl.conform.cluster.call import Exchange
from kipctl.conform.cluster.control import Control, Delay
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.protocol.api import ApiKey

OLD, NEW, OTHER = 1, 2, 3
"""The brokers of most rules: who led, who leads, and who has to do with neither."""
EPOCH, NEXT_EPOCH = 5, 6
MOST_A_SECOND = 21
"""One at once, and retries that wait for 50 ms or longer: half of Java's retry.backoff.ms, and its
reconnect.backoff.ms."""
STALE_MS = 1500.0
"""So long Metadata still shows the old leader."""


def slow_metadata(call: Exchange) -> Control | None:
    """Metadata takes half a second: what is done before is done for the hint."""
    return Delay(500_000) if call.api == ApiKey.METADATA else None


class Moved(Rule):
    """Broker 1 has given its replica away to broker 2, which leads in epoch 6; broker 1 says so,
    and Metadata hears of it late.

    Without a replica it says NOT_LEADER_OR_FOLLOWER to all (ReplicaManager.getPartitionOrError).
    One that still follows says FENCED_LEADER_EPOCH to a consumer that knows the epoch before
    (Partition.checkCurrentLeaderEpoch): that is 951-16.
    """

    is_given_away: ClassVar[bool] = True

    def arrange(self, stage: Stage) -> None:
        self.move(stage, STALE_MS)

    def move(self, stage: Stage, metadata_after_ms: float) -> None:
        """From broker 1 to broker 2; Metadata shows the one before for so long."""
        if self.is_given_away:
            stage.give_away(OLD)
        stage.move(NEW, NEXT_EPOCH, metadata_after_ms)

    def judge(self, trace: Trace) -> Judgement:
        return first_request(trace, NEW, slow_ms=trace.ms_of_script(STALE_MS))


def first_request(trace: Trace, broker: int, slow_ms: float = 0.0) -> Judgement:
    """By when the client's first request that is served came to a broker, from the refusal on. SLOW
    it is as long as a hint still gains by it: until so many ms, or later."""
    asked_ms = trace.first_at(broker)
    if asked_ms is None:
        return Judgement(Status.FAIL, f"It never asked broker {broker}.")
    ms = next((s.ms for s in trace.after if s.broker == broker and s.is_good), None)
    if ms is None:
        seen = f"It asked broker {broker}, and was never served there."
        return Judgement(Status.FAIL, seen, asked_ms)
    seen = f"It asked broker {broker} after {milliseconds(ms)}"
    if ms <= trace.at_once_ms:
        return Judgement(Status.PASS, f"{seen}.", ms)
    slow_ms = max(slow_ms, trace.slow_ms)
    if ms <= slow_ms:
        limit = milliseconds(trace.at_once_ms)
        return Judgement(Status.SLOW, f"{seen}; at once is {limit} here.", ms)
    return Judgement(Status.FAIL, f"{seen}; the most is {milliseconds(slow_ms)} here.", ms)


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
    return Judgement(status, f"It {verb} after {milliseconds(ms)}.", ms)


def most_in_a_second(times: Sequence[float]) -> int:
    """How many of these times, in ms, lie within one second at most."""
    return max((bisect_left(times, ms + 1000) - k for k, ms in enumerate(times)), default=0)


def pass_if(holds: object, seen: str, ms: float | None = None) -> Judgement:
    """PASS or FAIL, by what came then."""
    return Judgement(Status.PASS if holds else Status.FAIL, seen, ms)


def milliseconds(ms: float) -> str:
    """A time, in milliseconds."""
    return f"{ms:,.0f} ms"
