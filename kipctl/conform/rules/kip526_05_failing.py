"""526-5 and 526-6: Metadata with errors in it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from types import MappingProxyType

from kipctl.conform.cluster.apis.metadata import metadata
from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Answer, Control, Refusal
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import NEW, NEXT_EPOCH, OLD, asked_within, milliseconds
from kipctl.conform.rules.topics import FIRST_MS, Topics, topics_asked
from kipctl.conform.trace import Trace, first_tries, is_refused
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted
from kipctl.probe.leadership import Leader
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import MetadataResponse

_LASTS_MS = 2000.0
_MOST = 40
"""Requests that wait for 50 ms or longer, each after the one before."""
_RECOVERS_MS = 5000.0
_MOVES_MS = 1500.0
_WITHIN_MS, _SLOW_MS = 1500.0, 6000.0
"""Clients that keep to a least age of Metadata (5 s in franz-go) come late, not never."""


class Failing(Rule):
    """For 2 s broker 1 refuses, and Metadata has LEADER_NOT_AVAILABLE for the topic."""

    id = "526-5"
    title = "Metadata that fails is asked for again with backoff"
    says = "A refresh that fails is tried again after retry.backoff.ms."
    why = "All clients of a topic without a leader ask as fast as brokers answer."
    least = MappingProxyType(dict.fromkeys(Rule.least, 0))
    seconds = 10.0

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != OLD or stage.ms >= _LASTS_MS:
            return None
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        fails = call.api == ApiKey.METADATA and stage.ms < _LASTS_MS
        return _with_error(stage, call, stage.place[0]) if fails else None

    def judge(self, trace: Trace) -> Judgement:
        asked = [ms for ms in trace.metadata_ms if ms < _LASTS_MS]
        if not asked:
            return Judgement(Status.NOT_REACHED, "It asked for no Metadata.")
        good = next((s.ms for s in trace.after if s.is_good), None)
        again = _again(trace, asked)
        seen = f"It asked for Metadata {counted(len(asked), 'time')} in 2 s ({again:,} again), "
        if good is None or again > _MOST:
            well = "and recovered" if good else "and did not recover within 8 s"
            return Judgement(Status.FAIL, f"{seen}{well}.", asked[-1])
        is_late = good > _RECOVERS_MS * trace.scale
        seen += f"and was served {milliseconds(good)} after it was refused."
        return Judgement(Status.SLOW if is_late else Status.PASS, seen, good)


def _again(trace: Trace, asked: Sequence[float]) -> int:
    """How many of these were not the first since a batch, or a Fetch, was refused for the first
    time: who sends much is refused much, and may ask for each."""
    first_refused = first_tries(trace.refused)
    return sum(
        not any(before <= ms < later for ms in first_refused)
        for before, later in pairwise((-inf, *asked))
    )


class OneFails(Topics):
    """The producer sends to a second topic, which has an error in Metadata from then on, and to the
    first again, whose leader moves. Nobody names the new one."""

    id = "526-6"
    title = "an error of one topic in Metadata leaves the others as they are"
    says = "Each topic of an answer has an error of its own; the others are as they are shown."
    why = "One topic that was deleted stops a producer of thousands."
    seconds = 9.0

    @staticmethod
    def starts(tried: Attempt) -> bool:
        return is_refused(tried)

    def arrange(self, stage: Stage) -> None:
        stage.use(int(FIRST_MS <= stage.ms < _MOVES_MS - 2 * FIRST_MS))
        if stage.ms >= _MOVES_MS:
            stage.cluster.names_leaders = False
            stage.cluster.move(stage.place, Leader(NEW, NEXT_EPOCH))

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        fails = call.api == ApiKey.METADATA and stage.ms >= _MOVES_MS
        return _with_error(stage, call, stage.topics[1]) if fails else None

    def judge(self, trace: Trace) -> Judgement:
        if not any(topics is None or len(topics) > 1 for _, topics in topics_asked(trace)):
            return Judgement(Status.NOT_REACHED, "It did not ask for both topics.")
        within_ms, slow_ms = _WITHIN_MS * trace.scale, _SLOW_MS * trace.scale
        return asked_within(trace, NEW, within_ms, slow_ms, is_served=True)


def _with_error(stage: Stage, call: Exchange, topic: str) -> Answer:
    """The broker's answer, but for one topic."""
    answer = metadata(stage.cluster, stage.cluster.brokers[call.broker], call)
    assert isinstance(answer, MetadataResponse)
    topics = tuple(
        replace(t, error_code=ErrorCode.LEADER_NOT_AVAILABLE, partitions=())
        if t.name == topic
        else t
        for t in answer.topics
    )
    return Answer(replace(answer, topics=topics))
