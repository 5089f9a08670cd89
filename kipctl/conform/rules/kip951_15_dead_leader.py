"""951-15: a named leader that is dead does not hold the client up."""

from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import EPOCH, NEW, NEXT_EPOCH, OLD, OTHER, asked_within
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement
from kipctl.probe.leadership import Leader

_SHOWN_AFTER_MS = 200.0
_WITHIN_MS = 1500.0
_SLOW_MS = 6000.0
"""Clients that keep to a least age of Metadata (5 s in franz-go) come late, not never."""


class DeadLeader(Rule):
    """Broker 1 names broker 2, which has just died; broker 3 leads, and Metadata says so soon."""

    id = "951-15"
    needs = "951-1"
    title = "a named leader that is dead does not hold it up"
    says = "A newer epoch in Metadata replaces a leader that was named."
    why = "A broker that dies as it takes over is named by those that have not heard of that."
    seconds = 7.0

    def __init__(self) -> None:
        self._is_dead = False

    def arrange(self, stage: Stage) -> None:
        if not self._is_dead:
            self._is_dead = True
            stage.give_away(OLD)
            stage.cluster.stop(NEW)
            for broker in stage.cluster.brokers.values():
                broker.leaders[stage.place] = Leader(NEW, NEXT_EPOCH)
            stage.cluster.move(stage.place, Leader(OTHER, NEXT_EPOCH + 1))
        is_shown = stage.ms >= _SHOWN_AFTER_MS
        stage.show(None if is_shown else Leader(OLD, EPOCH))
        stage.hide(NEW, is_shown)
        stage.cluster.brokers[OTHER].leaders.maps[0].clear()

    def judge(self, trace: Trace) -> Judgement:
        return asked_within(trace, OTHER, _WITHIN_MS * trace.scale, _SLOW_MS * trace.scale)
