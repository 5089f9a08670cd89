"""951-17: of one answer, each partition goes its own way."""

from types import MappingProxyType

from kipctl.conform.cluster.call import Exchange
from kipctl.conform.cluster.control import Control
from kipctl.conform.rule import HINTS, Stage
from kipctl.conform.rules.hints import (
    EPOCH,
    NEW,
    NEXT_EPOCH,
    OLD,
    OTHER,
    Moved,
    first_request,
    milliseconds,
    slow_metadata,
)
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role, Status
from kipctl.probe.leadership import Leader

_STAYS, _UNNAMED = 1, 2
_MOST_MS = 2000.0


class Mixed(Moved):
    """Broker 1 leads three partitions: as 951-1 for the first, the second stays, and the third
    moves to broker 3, which broker 1 does not name and Metadata says after half a second. Answers
    name partitions in the reverse of the order in which they were asked for."""

    id = "951-17"
    title = "of one answer, each partition goes its own way"
    says = (
        "A leader is named for each partition of an answer; one without is looked up in Metadata,"
        " and one without an error stays."
    )
    why = "One moved leader takes others with it, or is missed among them."
    least = MappingProxyType({Role.CONSUMER: HINTS[Role.CONSUMER]})
    seconds = 3.0
    partitions = 3

    def prepare(self, stage: Stage) -> None:
        stage.cluster.order = lambda partitions: partitions[::-1]
        for index in range(self.partitions):
            stage.cluster.move((stage.place[0], index), Leader(OLD, EPOCH))

    def arrange(self, stage: Stage) -> None:
        super().arrange(stage)
        unnamed = stage.place[0], _UNNAMED
        stage.cluster.move(unnamed, Leader(OTHER, NEXT_EPOCH))
        stage.cluster.brokers[OLD].leaders[unnamed] = Leader(-1, EPOCH)
        stage.cluster.brokers[OLD].shown[unnamed] = Leader(OTHER, NEXT_EPOCH)

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        return slow_metadata(call)

    def judge(self, trace: Trace) -> Judgement:
        stays, unnamed = trace.also(_STAYS), trace.of(_UNNAMED)
        stays_at = trace.place[0], _STAYS
        if not any(
            trace.place in e.tried and stays_at in e.tried and e.tried[trace.place].error
            for e in trace.exchanges
        ):
            return Judgement(Status.NOT_REACHED, "It asked for each partition by itself.")
        if went := [s for s in stays if s.broker != OLD]:
            seen = f"It asked broker {went[0].broker} for the one that stayed."
            return Judgement(Status.FAIL, seen, went[0].ms)
        if not any(s.is_good for s in stays):
            return Judgement(Status.FAIL, "It did not read the one that stayed any more.")
        if went := [s for s in trace.also(_UNNAMED) if s.broker == NEW]:
            seen = f"It asked broker {NEW} for the one for which nobody was named."
            return Judgement(Status.FAIL, seen, went[0].ms)
        if unnamed.start_us is None:
            return Judgement(Status.NOT_REACHED, "It never asked for the one without a leader.")
        ms = next((s.ms for s in unnamed.after if s.broker == OTHER and s.is_good), None)
        if ms is None or ms > _MOST_MS * trace.scale:
            when = "never" if ms is None else f"after {milliseconds(ms)}"
            return Judgement(Status.FAIL, f"The one without a leader was served {when}.")
        return first_request(trace, NEW)  # half a second later it comes for Metadata
