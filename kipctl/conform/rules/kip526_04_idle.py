"""526-4: topics that are not used any more are not asked for."""

from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import pass_if
from kipctl.conform.rules.topics import FIRST_MS, Topics, topics_asked, topics_sent_to
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status

_DROPPED_MS = 10_500.0
"""After 5 s it is idle; the next answer, at most 5 s later, drops it."""


class Idle(Topics):
    """The producer leaves the first topic for a second. Its metadata.max.idle.ms and
    metadata.max.age.ms are 5 s. What it cannot know is whether the client has such a setting: who
    asks for the first topic still is SLOW."""

    id = "526-4"
    title = "a topic that is not used for metadata.max.idle.ms is not asked for any more"
    says = "A topic that was not sent to for metadata.max.idle.ms is dropped from the working set."
    why = "Each refresh is of all topics that were ever sent to."
    seconds = 16.0
    metadata_ms = 5_000

    def arrange(self, stage: Stage) -> None:
        stage.use(int(stage.ms >= FIRST_MS))

    def judge(self, trace: Trace) -> Judgement:
        first = trace.place[0]
        if topics_sent_to(trace) <= {first}:
            return Judgement(Status.NOT_REACHED, "It sent to no topic of its standard input.")
        later = [(ms, topics) for ms, topics in topics_asked(trace) if ms >= _DROPPED_MS]
        if not later:
            return Judgement(Status.NOT_REACHED, "It asked for no Metadata after 10 s.")
        still = next((ms for ms, topics in later if topics is None or first in topics), None)
        if still is not None:
            return Judgement(Status.SLOW, "It still asked for the topic that it had left.", still)
        return pass_if(True, "It asked for the topic that it had left no more.", later[0][0])
