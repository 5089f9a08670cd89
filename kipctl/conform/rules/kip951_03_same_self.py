"""951-3: a broker that names itself is asked again with backoff, and Metadata is looked at."""

from kipctl.conform.cluster.call import Attempt
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.rule import Rule, Stage
from kipctl.conform.rules.hints import EPOCH, OLD, pass_if
from kipctl.conform.trace import Trace, most_tries
from kipctl.conform.verdict import Judgement
from kipctl.counts import counted
from kipctl.probe.leadership import Leader

_LASTS_MS = 2000.0
_MOST = 40
"""Retries of one batch, or of one Fetch, that wait for 50 ms or longer."""


class SameSelf(Rule):
    """For 2 s broker 1 refuses, and names itself in the epoch that is known."""

    id = "951-3"
    title = "a refuser that names itself is asked with backoff, and Metadata is asked for"
    says = (
        "A leader that is named but advances nothing is as none: Metadata is refreshed, and the"
        " retry waits for retry.backoff.ms."
    )
    why = "A broker that takes over is asked thousands of times a second while it gets ready."
    seconds = 5.0

    def refuse(self, stage: Stage, attempt: Attempt) -> Refusal | None:
        if attempt.broker != OLD or stage.ms >= _LASTS_MS:
            return None
        return stage.hint(Leader(OLD, EPOCH))

    def judge(self, trace: Trace) -> Judgement:
        refused = [s for s in trace.after if s.broker == OLD and s.tried.error]
        good_ms = next((s.ms for s in trace.after if s.is_good), None)
        tries = most_tries(refused)
        refreshed = sum(ms < _LASTS_MS for ms in trace.metadata_ms)
        seen = (
            f"In 2 s it tried the same {tries:,} times ({counted(len(refused), 'request')} in all)"
        )
        after = "did not recover within 3 s" if good_ms is None else "recovered"
        is_right = tries <= _MOST and refreshed and good_ms is not None
        seen += f", asked {refreshed:,} times for Metadata, and {after}."
        return pass_if(is_right, seen, good_ms)
