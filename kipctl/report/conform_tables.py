"""What `kipctl conform` prints."""

from collections.abc import Collection, Iterable, Sequence

from kipctl.conform.catalogue import BY_ID
from kipctl.conform.requirement import Requirement
from kipctl.conform.rule import Rule
from kipctl.conform.trace import API_OF
from kipctl.conform.verdict import Judgement, Role, Status, Verdict
from kipctl.counts import counted
from kipctl.documents.conform import PresetDocument, RuleDocument, RuleVerdict
from kipctl.load.presets import Preset
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey
from kipctl.report.tables import Paragraph, Report, Tone, paragraphs, table_of

_SHOWN = (Status.FAIL, Status.SLOW, Status.NOT_REACHED)
"""Verdicts that are shown with the requests that they are by, in this order."""
_MOST_SHOWN = 20
"""As many as there are of one run of a client."""


def conform_report(
    client: str,
    role: str,
    verdicts: Sequence[Verdict],
    expected: Collection[str],
    command: str = "conform run",
) -> Report:
    """The verdicts on one client, proxy or cluster, the worst with their evidence."""
    documents = [_verdict(verdict, expected) for verdict in verdicts]
    failed = sum(v.status is Status.FAIL for v in verdicts)
    passed = sum(v.status is Status.PASS for v in verdicts)
    opening = Paragraph(
        f"{client} as a {role}: {counted(passed, 'rule', total=len(verdicts))} passed, "
        f"{failed} failed.",
        tone=Tone.BAD if failed else Tone.GOOD,
    )
    shown = sorted(
        (v for v in verdicts if v.status in _SHOWN and v.evidence),
        key=lambda v: _SHOWN.index(v.status),
    )
    table = table_of(
        "",
        documents,
        {"rule": "rule", "verdict": "status", "what it asks": "title", "what was seen": "seen"},
        notes=tuple(
            "Why a rule matters: " + Command("conform explain", verdict.rule)
            for verdict in (*shown, *verdicts)[:1]
        ),
        name="rules",
    )
    return Report(
        command,
        {"client": client, "role": role, "rules": documents},
        (table,),
        opening=(opening, *(_evidence(v.rule, v.status, v.evidence) for v in shown)),
    )


def _verdict(verdict: Verdict, expected: Collection[str]) -> RuleVerdict:
    return {
        "rule": verdict.rule,
        "title": BY_ID[verdict.rule].title,
        "status": verdict.status,
        "is_expected": verdict.rule in expected,
        "seen": verdict.seen,
        "runs": [{"status": run.status, "seen": run.seen} for run in verdict.runs],
        "evidence": list(verdict.evidence),
    }


def _evidence(rule: str, status: Status, lines: Sequence[str]) -> Paragraph:
    left = len(lines) - _MOST_SHOWN
    shown = (*lines[:_MOST_SHOWN], *((f"and {left:,} more (-o json)",) if left > 0 else ()))
    return Paragraph(f"{rule} {status}:", shown)


def judged_report(
    rule: type[Rule], role: Role, judged: Judgement, evidence: Sequence[str]
) -> Report:
    """One run of a rule."""
    return Report(
        "conform serve",
        {
            "rule": rule.id,
            "role": role,
            "status": judged.status,
            "seen": judged.seen,
            "evidence": list(evidence),
        },
        opening=(Paragraph(f"{rule.id} {judged.status}: {judged.seen}", tuple(evidence)),),
    )


def list_report(rules: Iterable[type[Requirement]], presets: Iterable[Preset]) -> Report:
    """All rules and presets."""
    documents = [_rule(rule) for rule in rules]
    clients: list[PresetDocument] = [
        {
            "name": preset.name,
            "version": preset.version,
            "roles": sorted(preset.roles),
            "available": preset.is_here,
        }
        for preset in presets
    ]
    return Report(
        "conform list",
        {"rules": documents, "presets": clients},
        (
            table_of(
                "Rules",
                documents,
                {"rule": "rule", "what it asks": "title", "of": _applies},
            ),
            table_of(
                "Clients (--preset)",
                clients,
                {
                    "name": "name",
                    "version": "version",
                    "as": lambda preset: ", ".join(preset["roles"]),
                    "can be had here": "available",
                },
                name="presets",
            ),
        ),
    )


def _rule(rule: type[Requirement]) -> RuleDocument:
    return {
        "rule": rule.id,
        "title": rule.title,
        "says": rule.says,
        "why": rule.why,
        "scene": " ".join((rule.__doc__ or "").split()),
        "least": {role.value: version for role, version in rule.least.items()}
        if issubclass(rule, Rule)
        else {},
    }


def _applies(document: RuleDocument) -> str:
    if not document["least"]:
        return f"a {document['rule'].partition('-')[0]}"
    return ", ".join(
        f"{ApiKey(API_OF[Role(role)]).name.title()} {version}+"
        for role, version in document["least"].items()
    )


def explained(rule: type[Requirement]) -> Report:
    """All that is to be said of a rule."""
    document = _rule(rule)
    return Report(
        "conform explain",
        document,
        opening=paragraphs(
            f"{rule.id}: {rule.title}.",
            f"The {'KIP' if document['least'] else 'protocol'}: {rule.says}",
            f"Otherwise: {rule.why}",
            f"The cluster: {document['scene']}",
            f"It is asked of {_applies(document)}.",
        ),
    )
