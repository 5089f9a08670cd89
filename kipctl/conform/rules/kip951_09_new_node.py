"""951-9: a leader that Metadata never named is reached by its endpoint."""

from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEW, STALE_MS, Moved, asked_within
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement


class NewNode(Moved):
    """Metadata has no broker 2 until 1.5 s after it leads; the hint says where it is."""

    id = "951-9"
    needs = "951-1"
    title = "a leader that Metadata does not know is reached by its endpoint"
    says = (
        "The endpoint that comes with a named leader is used where Metadata does not know it, as of"
        " a broker that was restarted or added."
    )
    why = "In a rolling restart the new leader is often the broker that was just away."

    def prepare(self, stage: Stage) -> None:
        stage.hide(NEW)

    def arrange(self, stage: Stage) -> None:
        super().arrange(stage)
        stage.hide(NEW, stage.ms < STALE_MS)

    def judge(self, trace: Trace) -> Judgement:
        stale_ms = trace.ms_of_script(STALE_MS)
        return asked_within(trace, NEW, trace.slow_ms, stale_ms)
