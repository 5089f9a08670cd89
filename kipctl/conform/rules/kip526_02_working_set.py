"""526-2 and 526-3: all topics in use are renewed, when a leader has moved and when they are old."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEW, NEXT_EPOCH, milliseconds, pass_if
from kipctl.conform.rules.topics import FIRST_MS, Topics, topics_asked, topics_sent_to
from kipctl.conform.trace import Trace, is_refused
from kipctl.conform.verdict import Judgement, Status
from kipctl.probe.leadership import Leader

_MOVES_MS = 1000.0
_WITHIN_MS = 6500.0
"""Clients that keep to a least age of Metadata (5 s in franz-go) ask late."""
_TURN_MS = 500.0
_LATEST_MS = 7500.0


class WorkingSet(Topics):
    """The producer sends to a second topic, and to the first again; then the first's leader moves,
    and nobody names the new one."""

    id = "526-2"
    title = "when a leader has moved, all topics in use may be asked for"
    says = "Other refreshes than those for new topics are of the whole working set."
    why = "A leader seldom moves alone: the other topics have to be refused first."
    seconds = 8.0

    @staticmethod
    def starts(tried: Attempt) -> bool:
        return is_refused(tried)

    def arrange(self, stage: Stage) -> None:
        stage.use(int(FIRST_MS <= stage.ms < _MOVES_MS - FIRST_MS))
        if stage.ms >= _MOVES_MS:
            stage.cluster.names_leaders = False
            stage.cluster.move(stage.place, Leader(NEW, NEXT_EPOCH))

    def judge(self, trace: Trace) -> Judgement:
        if len(topics_sent_to(trace, since_start=False)) < 2:
            return Judgement(Status.NOT_REACHED, "It sent to no topic of its standard input.")
        asked = [(ms, topics) for ms, topics in topics_asked(trace) if ms < _WITHIN_MS]
        if not asked:
            return Judgement(Status.NOT_REACHED, "It asked for no Metadata.")
        both = next((ms for ms, topics in asked if topics is None or len(topics) > 1), None)
        if both is not None:
            return pass_if(True, "It asked for both topics.", both)
        seen = "It asked for the topic that had moved, alone."
        return Judgement(Status.SLOW, seen, asked[0][0])


class Age(Topics):
    """The producer sends to two topics in turns, and its metadata.max.age.ms is 5 s."""

    id = "526-3"
    title = "Metadata that is older than metadata.max.age.ms is renewed"
    says = "All topics in use are renewed when they are older than metadata.max.age.ms."
    why = "Without errors nothing else tells of new partitions and brokers."
    seconds = 9.0
    metadata_ms = 5_000

    def arrange(self, stage: Stage) -> None:
        stage.use(int((stage.ms - FIRST_MS) // _TURN_MS) % 2 if stage.ms >= FIRST_MS else 0)

    def judge(self, trace: Trace) -> Judgement:
        sent_to = topics_sent_to(trace)
        if len(sent_to) < 2:
            return Judgement(Status.NOT_REACHED, "It sent to no topic of its standard input.")
        renewed = {
            topic: [
                ms
                for ms, topics in topics_asked(trace)
                if ms >= _MOVES_MS and (topics is None or topic in topics)
            ]
            for topic in sent_to
        }
        if not all(renewed.values()):
            return pass_if(False, "It did not ask again for all topics that it sent to.")
        last = max(times[0] for times in renewed.values())
        seen = f"It had asked for all after {milliseconds(last)}."
        return pass_if(last <= _LATEST_MS * trace.scale, seen, last)
