"""951-14: a refusal that names nobody sends the client to Metadata."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEW, NEXT_EPOCH, OLD, Moved, asked_within
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement
from kipctl.probe.leadership import Leader

_WITHIN_MS = 1000.0


class Nobody(Moved):
    """Broker 1 refuses with (-1, 6), then with (-1, -1). Metadata has the truth at once."""

    id = "951-14"
    title = "a refusal that names nobody sends it to Metadata"
    says = "Without a named leader clients do as before: Metadata, and retry.backoff.ms."
    why = "Brokers that know no leader say -1; a client that believes it asks nobody any more."

    def __init__(self) -> None:
        self._refused = 0

    def arrange(self, stage: Stage) -> None:
        self.move(stage, 0)

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != OLD:
            return None
        self._refused += 1
        return stage.hint(Leader(-1, NEXT_EPOCH if self._refused == 1 else -1))

    def judge(self, trace: Trace) -> Judgement:
        within_ms = _WITHIN_MS * trace.scale
        return asked_within(trace, NEW, within_ms, within_ms)
