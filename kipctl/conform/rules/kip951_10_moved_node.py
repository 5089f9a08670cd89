"""951-10: a leader that listens elsewhere by now is asked where the hint says."""

from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEW, STALE_MS, Moved, asked_within
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement
from kipctl.probe.leadership import Node


class MovedNode(Moved):
    """Broker 2 restarts at another port, and leads. Metadata has the old one for 1.5 s."""

    id = "951-10"
    needs = "951-1"
    title = "a leader at another address is asked where the hint says"
    says = "The endpoint that comes with a named leader overrides the one that was known."
    why = "A broker that was replaced, or a pod that was scheduled anew, is looked for in vain."

    def __init__(self) -> None:
        self._before: Node | None = None

    def arrange(self, stage: Stage) -> None:
        cluster = stage.cluster
        if self._before is None:
            self._before = cluster.nodes[NEW]
            cluster.restart(NEW)
        for broker in cluster.brokers.values():
            if stage.ms < STALE_MS:
                broker.nodes[NEW] = self._before
            else:
                broker.nodes.maps[0].clear()
        self.move(stage, STALE_MS)

    def judge(self, trace: Trace) -> Judgement:
        stale_ms = trace.ms_of_script(STALE_MS)
        return asked_within(trace, NEW, stale_ms, stale_ms)
