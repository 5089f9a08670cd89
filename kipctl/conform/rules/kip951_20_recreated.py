"""951-20: of a topic that was made anew, epochs start again."""

from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import NEW, asked_within
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Role
from kipctl.probe.leadership import Leader

_MOVES_MS = 1000.0
_WITHIN_MS = 4000.0
_SLOW_MS = 7000.0
"""Clients that keep to a least age of Metadata (5 s in franz-go) come late, not never."""


class Recreated(Rule):
    """The topic is deleted and made anew, in epoch 0; after 1 s broker 2 leads in epoch 1."""

    id = "951-20"
    title = "of a topic that was made anew, lower epochs count"
    says = "Epochs are those of a topic id: a new topic of the name begins at 0."
    why = "The client keeps to the leader of a topic that is no more (KAFKA-12257)."
    least = dict.fromkeys(Rule.least, 0)
    seconds = 7.5

    def __init__(self) -> None:
        self._is_made = False

    def arrange(self, stage: Stage) -> None:
        if not self._is_made:
            self._is_made = True
            stage.cluster.create(stage.place[0], self.partitions, epoch=0)
        if stage.ms >= _MOVES_MS:
            stage.cluster.move(stage.place, Leader(NEW, 1))

    def judge(self, trace: Trace) -> Judgement:
        # Where to go on in the new log is the consumer's own affair: some leave it to their user.
        is_served = trace.role is Role.PRODUCER
        return asked_within(trace, NEW, _WITHIN_MS, _SLOW_MS, is_served)
