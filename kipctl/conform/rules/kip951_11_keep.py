"""951-11 and 951-12: a hint ends no connection."""

from typing import ClassVar

from kipctl.conform.rules.hints import NEW, OTHER, Moved, milliseconds, pass_if
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement, Status
from kipctl.counts import counted

_WITHIN_MS = 1000.0


class Keep(Moved):
    """As 951-1. The client is connected to broker 2, which leads another partition."""

    id = "951-11"
    title = "the connection to the named leader is kept"
    says = "An endpoint that is as it was known changes nothing."
    why = "What is in flight to a healthy broker is lost and sent again."
    partitions = 2
    broker: ClassVar[int] = NEW

    def judge(self, trace: Trace) -> Judgement:
        connections = trace.closed_ms(self.broker)
        if not connections:
            return Judgement(
                Status.NOT_REACHED, f"It was not connected to broker {self.broker} before."
            )
        closed = [ms for ms in connections if ms is not None and ms < _WITHIN_MS]
        when = f", after {milliseconds(min(closed))}" if closed else ""
        return pass_if(
            not closed,
            f"It closed {counted(len(closed), 'connection')} to broker {self.broker}{when}.",
            min(closed, default=None),
        )


class KeepOthers(Keep):
    """As 951-1. The client is connected to broker 3, too, which leads another partition."""

    id = "951-12"
    title = "connections to other brokers are kept"
    says = "A named leader says nothing of other brokers."
    why = "Each moved leader breaks what is in flight to all brokers."
    partitions = 3
    broker = OTHER
