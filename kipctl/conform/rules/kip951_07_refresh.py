"""951-7: who follows a hint refreshes Metadata all the same."""

from kipctl.conform.rules.hints import NEW, Moved, milliseconds, pass_if
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status

_WITHIN_MS = 2000.0


class Refresh(Moved):
    """As 951-1; what counts is whether Metadata is asked for."""

    id = "951-7"
    title = "Metadata is refreshed though the hint was followed"
    says = "The client still asks for an expedited refresh of Metadata, asynchronously."
    why = "A leader seldom moves alone: all other partitions have to be refused first."

    def judge(self, trace: Trace) -> Judgement:
        if trace.first_at(NEW) is None:
            return Judgement(Status.NOT_REACHED, f"It never asked broker {NEW}.")
        first = next(iter(trace.metadata_ms), None)
        is_asked = first is not None and first <= _WITHIN_MS * trace.scale
        when = "never" if first is None else f"after {milliseconds(first)}"
        return pass_if(is_asked, f"It asked for Metadata {when}.", first)
