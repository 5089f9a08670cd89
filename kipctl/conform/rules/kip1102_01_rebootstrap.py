"""1102-1 and 1102-2: who is told to rebootstrap, or hears of no brokers for long, does so."""

import math
from typing import ClassVar

from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Answer, Control, Refusal
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import OLD, milliseconds
from kipctl.conform.trace import API_OF, Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import MetadataResponse

_ERROR_SINCE = 13
_EARLY_US = 500_000
_SEED = 0
"""The connection that a client makes first: to its bootstrap server."""
_SENT_BEFORE_US = 20_000
"""A client counts from when it has sent what arrives here a little later."""
_BACKOFF_MS = 1500.0
"""A client looks at the time when it asks for Metadata again: retry.backoff.max.ms later."""


class Rebootstrap(Rule):
    """Broker 1 refuses until it has answered Metadata once with REBOOTSTRAP_REQUIRED."""

    id = "1102-1"
    title = "REBOOTSTRAP_REQUIRED ends its connections, and it begins at the bootstrap servers"
    says = "On REBOOTSTRAP_REQUIRED a client drops all brokers and asks the bootstrap servers."
    why = "A client that was led to brokers of another cluster stays with them."
    least = dict.fromkeys(Rule.least, 0)
    seconds = 7.5
    within_ms: ClassVar[float] = 1000.0
    slow_ms: ClassVar[float] = 6000.0
    """Clients that keep to a least age of Metadata (5 s in franz-go) come late, not never."""
    otherwise: ClassVar[Status] = Status.FAIL
    in_flight_ms: ClassVar[float] = 150.0
    """Until then comes what had been sent before the answer, on a busy machine."""

    def __init__(self) -> None:
        self._has_refused = self._has_told = False

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != OLD or self._has_told:
            return None
        self._has_refused = True
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        is_asked = call.api == ApiKey.METADATA and call.version >= _ERROR_SINCE
        if self._has_told or not self._has_refused or not is_asked:
            return None
        self._has_told = True
        return Answer(MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))

    def due_us(self, trace: Trace) -> int | None:
        """From when on it is to begin anew."""
        told = (e.answered_us for e in _metadata(trace) if _error(e))
        return next(told, None)

    def judge(self, trace: Trace) -> Judgement:
        versions = [e.version for e in trace.exchanges if e.api == ApiKey.METADATA]
        if max(versions) < _ERROR_SINCE:
            return Judgement(
                Status.NOT_APPLICABLE, f"It asks Metadata {max(versions)}; this comes from 13 on."
            )
        due_us = self.due_us(trace)
        if due_us is None:
            return Judgement(Status.NOT_REACHED, "It asked for no Metadata.")
        late_us = due_us + self.in_flight_ms * 1000 * trace.scale
        before = {c.number for c in trace.connections if c.opened_us < due_us}
        used = [
            e.us
            for e in trace.exchanges
            if e.api == API_OF[trace.role] and e.us > late_us and e.connection in before
        ]
        after_ms = (self.began_anew_us(trace, due_us) - due_us) / 1000
        again = "made no new connection"
        if after_ms <= self.slow_ms * trace.scale:
            again = f"connected anew after {milliseconds(after_ms)}"
        status = self.otherwise
        if not used and after_ms <= self.within_ms * trace.scale:
            status = Status.PASS
        elif not used and after_ms <= self.slow_ms * trace.scale:
            status = Status.SLOW
        return Judgement(
            status,
            f"It sent {counted(len(used), 'request')} on connections of before, and {again}.",
            ((used[0] if used else due_us) - (trace.start_us or 0)) / 1000,
        )

    def began_anew_us(self, trace: Trace, due_us: int) -> float:
        """When it turned to the bootstrap server, after it was to."""
        opened = (c.opened_us for c in trace.connections if c.broker == OLD)
        return min((us for us in opened if us >= due_us), default=math.inf)


class NoBrokers(Rebootstrap):
    """Answers to Metadata have no brokers in them for metadata.recovery.rebootstrap.trigger.ms (5 s
    here), and later on connections that have brought such an answer. What it cannot know is whether
    a client takes an answer without brokers for one: Java does not."""

    id = "1102-2"
    title = "without brokers in Metadata for too long, it begins at the bootstrap servers"
    says = (
        "Who cannot obtain Metadata from any broker that it knows for"
        " metadata.recovery.rebootstrap.trigger.ms asks the bootstrap servers."
    )
    why = "A client whose brokers have all been replaced looks for them until it is restarted."
    seconds = 12.0
    metadata_ms = 5_000
    within_ms = in_flight_ms = _EARLY_US / 1000 + _BACKOFF_MS
    otherwise = Status.SLOW
    """No answer asks for it: a client need not have this, and is served meanwhile."""

    @staticmethod
    def starts(tried: Attempt) -> bool:
        return True

    def __init__(self) -> None:
        super().__init__()
        self._due_us: int | None = None
        self._without: set[int] = set()
        """Connections that have brought an answer without brokers."""

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        return None

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        if call.api != ApiKey.METADATA:
            return None
        if self._due_us is None:
            self._due_us = self._due_after(call)
        # Java has a connection to the bootstrap server still, and asks there when it begins anew.
        is_due = stage.cluster.now_us() >= self._due_us + _EARLY_US - _SENT_BEFORE_US
        if is_due and (call.connection == _SEED or call.connection not in self._without):
            return None
        self._without.add(call.connection)
        return Answer(MetadataResponse())

    def due_us(self, trace: Trace) -> int | None:
        asked = (e for e in _metadata(trace) if e.us >= (trace.began_us or 0))
        return next((self._due_after(e) for e in asked), None)

    def began_anew_us(self, trace: Trace, due_us: int) -> float:
        """A client that still has its first connection (franz-go) asks the server there."""
        asked = (e.us for e in _metadata(trace) if e.connection == _SEED and e.us >= due_us)
        return min(super().began_anew_us(trace, due_us), next(asked, math.inf))

    def _due_after(self, asked: Exchange) -> int:
        return asked.us + self.metadata_ms * 1000 - _EARLY_US


def _metadata(trace: Trace) -> list[Exchange]:
    return [e for e in trace.exchanges if e.api == ApiKey.METADATA]


def _error(exchange: Exchange) -> bool:
    answer = exchange.response
    told = isinstance(answer, MetadataResponse) and answer.error_code
    return told == ErrorCode.REBOOTSTRAP_REQUIRED
