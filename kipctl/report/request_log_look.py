"""What is said after each look at request logs that are still written."""

from collections.abc import Iterator, Mapping

from kipctl.counts import counted
from kipctl.documents.analysis import LoggedFinding, RequestLogAnalysis
from kipctl.report.plan_tables import duration
from kipctl.report.request_log_answer import finding_sentence
from kipctl.severity import Severity

_CLOCKS_APART_S = 60.0
_TOLD_APART_BY = "id", "severity", "software", "version"


def look_sentences(
    before: RequestLogAnalysis | None, now: RequestLogAnalysis, behind: float | None
) -> Iterator[str]:
    """Findings but notes that were not there `before`, the worst first; then how many lines and
    errors have come, and how long ago (seconds) the last request that was read was answered."""
    known = _findings(before) if before else {}
    new = [finding for key, finding in _findings(now).items() if key not in known]
    new.sort(key=lambda finding: Severity(finding["severity"]).rank)
    yield from map(finding_sentence, new)
    lines = now["lines"]["read"] - (before["lines"]["read"] if before else 0)
    broken = now["lines"]["broken"] - (before["lines"]["broken"] if before else 0)
    errors = _errors(now) - (_errors(before) if before else 0)
    said = f"{counted(lines, 'line')} more, {now['lines']['read']:,} in all"
    said += f", {broken:,} broken" if broken else ""
    said += f"; {counted(errors, 'error')} to Produce and Fetch"
    yield f"{said}{'' if behind is None else _behind(behind)}."


def _behind(seconds: float) -> str:
    if seconds > -_CLOCKS_APART_S:
        return f"; {duration(max(0.0, seconds))} behind"
    return f"; their times are {duration(-seconds)} ahead of this machine's clock: see --timezone"


def _findings(document: RequestLogAnalysis) -> Mapping[tuple[object, ...], LoggedFinding]:
    return {
        (cluster["cluster_id"], *map(finding.get, _TOLD_APART_BY)): finding
        for cluster in document["clusters"]
        for finding in cluster["findings"]
        if finding["severity"] != Severity.NOTE
    }


def _errors(document: RequestLogAnalysis) -> int:
    return sum(
        sum(errors.values())
        for cluster in document["clusters"]
        for errors in (cluster["produce_errors"], cluster["fetch_errors"])
    )
