"""951-18: a hint counts also where Metadata came before it."""

from types import MappingProxyType

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal, Waiting
from kipctl.conform.rule import HINTS, Rule, Stage
from kipctl.conform.rules.hints import EPOCH, NEW, NEXT_EPOCH, OLD, OTHER, first_request
from kipctl.conform.trace import Trace, is_refused
from kipctl.conform.verdict import Judgement, Role, Status
from kipctl.probe.leadership import Leader
from kipctl.protocol.api import ApiKey

_LONGEST_MS = 1500.0
_STALE_MS = 2500.0
_TAKEN_MS = 30.0
"""By then a client has taken the answer that came over another connection."""


class Overtaken(Rule):
    """Broker 1 holds a Fetch until Metadata has shown broker 2 in epoch 6, which broker 2 does not
    know of; then it names broker 3 in epoch 7, as Metadata does after 2.5 s."""

    id = "951-18"
    needs = "951-1"
    title = "a hint that Metadata has overtaken is followed if it is newer still"
    says = "Whatever advances the client's view is taken, Metadata or hint, in any order."
    why = "The newest leader is known and not asked: the reader waits for Metadata."
    least = MappingProxyType({Role.CONSUMER: HINTS[Role.CONSUMER]})
    partitions = 2
    seconds = 4.0

    @staticmethod
    def starts(tried: Attempt) -> bool:
        return tried.broker == OLD and is_refused(tried)

    def arrange(self, stage: Stage) -> None:
        asks, brokers = (stage.place[0], 1), stage.cluster.brokers
        stage.give_away(OLD)
        stage.cluster.move(stage.place, Leader(OTHER, NEXT_EPOCH + 1))
        stage.show(Leader(NEW, NEXT_EPOCH) if stage.ms < _STALE_MS else None)
        brokers[NEW].leaders[stage.place] = Leader(-1, NEXT_EPOCH)
        # For its sake the reader asks for Metadata.
        brokers[NEW].leaders[asks] = Leader(NEW if stage.metadata_answered() else -1, EPOCH)

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | Waiting | None:
        return self._delayed(stage) if attempt.broker == OLD else None

    def _delayed(self, stage: Stage) -> Waiting:
        while stage.ms < _LONGEST_MS and not stage.metadata_answered():
            yield
        until_ms = stage.ms + _TAKEN_MS
        while stage.ms < until_ms:
            yield
        return stage.hint(Leader(OTHER, NEXT_EPOCH + 1))

    def judge(self, trace: Trace) -> Judgement:
        began_us, start_us = trace.began_us or 0, trace.start_us or 0
        if not any(
            e.api == ApiKey.METADATA and began_us <= e.us and 0 <= e.answered_us <= start_us
            for e in trace.exchanges
        ):
            return Judgement(Status.NOT_REACHED, "It asked for no Metadata meanwhile.")
        return first_request(trace, OTHER)
