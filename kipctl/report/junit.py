"""Verdicts as a JUnit report, which CI services read."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from kipctl.conform.verdict import Status, Verdict
from kipctl.errors import refusals_reported
from kipctl.report.formats import require_new_or_own
from kipctl.report.printable import on_one_line

_SKIPPED = (Status.NOT_APPLICABLE, Status.NOT_REACHED)


def check_junit(file: Path) -> None:
    """Raise UsageError unless a report can be written there: it is new, or an older report."""
    require_new_or_own(file, "--junit", "<testsuite ", "JUnit report")


@refusals_reported()
def write_junit(file: Path, client: str, role: str, verdicts: Sequence[Verdict]) -> None:
    """A test case of each rule; N/A and NOT REACHED are skipped ones. Raises KipctlError."""
    suite = Element(
        "testsuite",
        name=f"{on_one_line(client)} as a {role}",
        tests=str(len(verdicts)),
        failures=str(sum(v.status is Status.FAIL for v in verdicts)),
        skipped=str(sum(v.status in _SKIPPED for v in verdicts)),
    )
    for verdict in verdicts:
        case = SubElement(suite, "testcase", classname=f"conform.{role}", name=verdict.rule)
        evidence = "\n".join(map(on_one_line, (verdict.seen, *verdict.evidence)))
        if verdict.status is Status.FAIL:
            SubElement(case, "failure", message=on_one_line(verdict.seen)).text = evidence
        elif verdict.status in _SKIPPED:
            SubElement(case, "skipped", message=on_one_line(f"{verdict.status}: {verdict.seen}"))
        else:
            SubElement(case, "system-out").text = f"{verdict.status}\n{evidence}"
    indent(suite)
    ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)
