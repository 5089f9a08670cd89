"""951-4: another leader in the known epoch is not believed."""

from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Control, Refusal
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import EPOCH, NEW, OLD, pass_if, slow_metadata
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement
from kipctl.counts import counted
from kipctl.probe.leadership import Leader

_LASTS_MS = 1000.0
_RECOVERS_MS = 4000.0


class SameOther(Rule):
    """For 1 s brokers 1 and 2 refuse, and name each other in the epoch that is known."""

    id = "951-4"
    title = "another leader in the epoch that is known is not asked"
    says = "A named leader counts only if its epoch is greater than the one that is known."
    why = "There is one leader in an epoch: two brokers that disagree send clients to and fro."
    seconds = 4.5

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if stage.ms >= _LASTS_MS or attempt.broker not in (OLD, NEW):
            return None
        return stage.hint(Leader(NEW if attempt.broker == OLD else OLD, EPOCH))

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        return slow_metadata(call)

    def judge(self, trace: Trace) -> Judgement:
        times = trace.count(_LASTS_MS, NEW)
        is_well = any(s.is_good and s.ms < _RECOVERS_MS for s in trace.after)
        after = "and recovered" if is_well else "and did not recover within 3 s"
        return pass_if(
            not times and is_well,
            f"It asked broker {NEW} {counted(times, 'time')} in 1 s, {after}.",
            trace.first_at(NEW),
        )
