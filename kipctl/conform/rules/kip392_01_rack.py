"""392-1: a consumer says its rack."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.rules.hints import pass_if
from kipctl.conform.rules.replicas import RACK, Preferred
from kipctl.conform.trace import API_OF, Trace
from kipctl.conform.verdict import Judgement


class Rack(Preferred):
    """A follower is in the reader's rack."""

    id = "392-1"
    title = "its rack is in every Fetch"
    says = "A consumer with client.rack sends it, so that the leader can choose a replica."
    why = "It reads across zones, which is paid for by the gigabyte."

    @staticmethod
    def starts(tried: Attempt) -> bool:
        return True

    def judge(self, trace: Trace) -> Judgement:
        racks = [
            e.request.rack_id for e in trace.exchanges if e.api == API_OF[trace.role] and e.request
        ]
        with_rack = racks.count(RACK)
        return pass_if(with_rack == len(racks), f"{with_rack} of {len(racks)} Fetches had it.")
