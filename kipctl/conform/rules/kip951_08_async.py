"""951-8: nobody waits for Metadata."""

from kipctl.conform.cluster.call import Exchange
from kipctl.conform.cluster.control import Control, Delay
from kipctl.conform.rule import Stage
from kipctl.conform.rules.hints import NEW, Moved, first_request
from kipctl.conform.trace import Trace
from kipctl.conform.verdict import Judgement
from kipctl.protocol.api import ApiKey

_SLOW_US = 1_000_000


class Asynchronous(Moved):
    """As 951-1, with Metadata that takes 1 s to be answered."""

    id = "951-8"
    needs = "951-1"
    title = "a slow answer of Metadata delays no retry"
    says = "The refresh that a moved leader asks for is asynchronous: the retry is not behind it."
    why = "Metadata of large clusters takes hundreds of milliseconds when many leaders move."

    def control(self, stage: Stage, call: Exchange) -> Control | None:
        return Delay(_SLOW_US) if call.api == ApiKey.METADATA else None

    def judge(self, trace: Trace) -> Judgement:
        return first_request(trace, NEW, slow_ms=trace.ms_of_script(_SLOW_US / 1000))
