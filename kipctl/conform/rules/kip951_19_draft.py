"""951-19: hints of the KIP's early draft are not read."""

from types import MappingProxyType

from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEW, STALE_MS, Moved, milliseconds, pass_if
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status
from kipctl.protocol.api import ApiKey


class Draft(Moved):
    """As 951-1, with brokers that speak Produce 9 and name the leader in it."""

    id = "951-19"
    title = "a leader that is named in versions without hints is not asked"
    says = "Tags of Produce 10 mean nothing in versions before."
    why = "Unknown tags may mean anything: brokers of the draft wrote others into them."
    seconds = 7.0
    least = MappingProxyType({Role.PRODUCER: 9})

    def prepare(self, stage: Stage) -> None:
        stage.cluster.versions |= {ApiKey.PRODUCE: (0, 9)}
        stage.cluster.has_draft_hints = True

    def judge(self, trace: Trace) -> Judgement:
        ms = trace.first_at(NEW)
        if ms is None:
            return Judgement(Status.NOT_REACHED, f"It never asked broker {NEW}.")
        is_after = ms >= trace.ms_of_script(STALE_MS)
        return pass_if(is_after, f"It asked broker {NEW} after {milliseconds(ms)}.", ms)
