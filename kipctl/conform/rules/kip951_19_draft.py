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
    says = "Tags of Produce 10 mean nothing in versions before: they are skipped (KIP-482)."
    why = "Unknown tags may mean anything: brokers of the draft wrote others into them."
    seconds = 7.0
    least = MappingProxyType({Role.PRODUCER: 9})

    def prepare(self, stage: Stage) -> None:
        stage.cluster.versions |= {ApiKey.PRODUCE: (0, 9)}
        stage.cluster.has_draft_hints = True

    def judge(self, trace: Trace) -> Judgement:
        ms = trace.first_at(NEW)
        named_ms = trace.ms_of_script(STALE_MS)
        if ms is None:
            # Java since 3.7: a tag that it knows in later versions alone is an error to it.
            named = f"which Metadata named after {milliseconds(named_ms)}"
            return Judgement(Status.FAIL, f"It never asked broker {NEW}, {named}.")
        return pass_if(ms >= named_ms, f"It asked broker {NEW} after {milliseconds(ms)}.", ms)
