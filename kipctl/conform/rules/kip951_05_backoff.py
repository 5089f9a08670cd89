"""951-5: a new leader that is not ready is asked again with backoff."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import MOST_A_SECOND, NEW, NEXT_EPOCH, Moved, pass_if
from kipctl.conform.trace import Trace, most_tries
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted
from kipctl.probe.leadership import Leader

_LASTS_MS = 1000.0
_MOST_ANYWHERE = 2 * MOST_A_SECOND
"""With those that go to the broker that refused first: to and fro, each time after a wait."""


class Backoff(Moved):
    """The new leader has no replica yet: for 1 s it refuses too, and names itself."""

    id = "951-5"
    needs = "951-1"
    title = "a new leader that is not ready is asked again with backoff"
    says = "Later retries to the same leader epoch are subject to the client's backoff."
    why = "Every client of a broker that takes over asks it in a hot loop."
    seconds = 4.5

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != NEW or stage.ms >= _LASTS_MS:
            return None
        return stage.hint(Leader(NEW, NEXT_EPOCH))

    def judge(self, trace: Trace) -> Judgement:
        early = [s for s in trace.after if s.ms < _LASTS_MS and s.tried.error]
        refused = [s for s in early if s.broker == NEW]
        if not refused:
            return Judgement(Status.NOT_REACHED, f"It did not ask broker {NEW} while it refused.")
        times, anywhere = most_tries(refused), most_tries(early)
        is_well = any(s.is_good for s in trace.after)
        after = "and recovered" if is_well else "and did not recover within 3 s"
        seen = (
            f"It tried broker {NEW} {times:,} times with the same in 1 s ({anywhere:,} with other"
            f" brokers, {counted(len(early), 'request')} in all), {after}."
        )
        is_slow = times <= MOST_A_SECOND and anywhere <= _MOST_ANYWHERE
        return pass_if(is_slow and is_well, seen, refused[-1].ms)
