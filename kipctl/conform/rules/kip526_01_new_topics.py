"""526-1: new topics are asked for alone."""

from kipctl.conform.rule import Stage
from kipctl.conform.rules.topics import FIRST_MS, Topics, topics_asked, topics_sent_to
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted

_EACH_MS = 200.0
_BY_CHANCE = 1
"""A refresh may be due just then."""


class NewTopics(Topics):
    """The producer comes to 10 topics, one after the other, that it has not sent to before. Who
    asks for known ones with them is SLOW: the KIP is about Java's producer, changes neither
    protocol nor brokers, and asks nothing of clients that never took it up. That each new topic
    costs more than it has to is so all the same."""

    id = "526-1"
    title = "new topics are asked for alone"
    says = "Who comes to a topic that it does not know asks for that topic, not for all it knows."
    why = "With thousands of topics each new one costs an answer with all of them (KAFKA-8904)."
    topics = 11
    seconds = (FIRST_MS + 10 * _EACH_MS) / 1000 + 2

    def arrange(self, stage: Stage) -> None:
        number = int((stage.ms - FIRST_MS) // _EACH_MS) + 1
        stage.use(min(max(0, number), self.topics - 1))

    def judge(self, trace: Trace) -> Judgement:
        new = topics_sent_to(trace) - {trace.place[0]}
        if len(new) < 2:
            return Judgement(Status.NOT_REACHED, "It sent to no topics of its standard input.")
        known, asks = {trace.place[0]}, topics_asked(trace)
        with_known: list[float] = []
        if not asks:
            return Judgement(Status.NOT_REACHED, "It had asked for all topics before.")
        for ms, topics in asks:
            if topics is None or topics & known:
                with_known.append(ms)
            known |= topics or set()
        seen = (
            f"For {counted(len(new), 'new topic')} it sent {counted(len(asks), 'request')}, "
            f"{len(with_known):,} of them for topics that it knew too."
        )
        is_late = len(with_known) > _BY_CHANCE
        decided_ms = (with_known or [asks[0][0]])[0]
        return Judgement(Status.SLOW if is_late else Status.PASS, seen, decided_ms)
