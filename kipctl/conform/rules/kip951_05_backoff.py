"""951-5: a new leader that is not ready is asked again with backoff."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEW, NEXT_EPOCH, Moved, pass_if, retries
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted
from kipctl.probe.leadership import Leader

_LASTS_MS = 1000.0
_MOST = 21
"""One at once, and retries that wait for 50 ms or longer."""
_MOST_REQUESTS = 100
_MOST_ANYWHERE = 200
"""With those that it sends to the broker that it was refused by first."""


class Backoff(Moved):
    """The new leader refuses for 1 s too, and names itself."""

    id = "951-5"
    title = "a new leader that is not ready is asked again with backoff"
    says = "Later retries to the same leader epoch are subject to the client's backoff."
    why = "Every client of a broker that takes over asks it in a hot loop."
    seconds = 4.5

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != NEW or stage.ms >= _LASTS_MS:
            return super().refuse(stage, attempt)
        return stage.hint(Leader(NEW, NEXT_EPOCH))

    def judge(self, trace: Trace) -> Judgement:
        refused = [s.ms for s in trace.after if s.broker == NEW and s.tried.error]
        if not refused:
            return Judgement(Status.NOT_REACHED, f"It did not ask broker {NEW} while it refused.")
        times = retries(refused)
        anywhere = trace.count(_LASTS_MS)
        is_well = any(s.is_good for s in trace.after)
        after = "and recovered" if is_well else "and did not recover within 3 s"
        seen = (
            f"It tried broker {NEW} {times:,} times in 1 s ({counted(len(refused), 'request')},"
            f" {anywhere:,} with those to others), {after}."
        )
        is_slow = times <= _MOST and len(refused) <= _MOST_REQUESTS
        return pass_if(is_slow and anywhere <= _MOST_ANYWHERE and is_well, seen)
