"""Every client that kipctl can start, held against every rule: docs/conformance-table.md.

    python benchmarks/conformance.py --to FOLDER [--only kafkajs ...] [--at-once 3] [--page FILE]
                                     [--again RULE,...] [--role consumer]

`kipctl conform run --preset NAME --as ROLE -o json` for each, so many at once: what they send is
little, and kipctl's own client tells each time whether the machine is too busy. FOLDER keeps what
each printed, with the requests behind every verdict; what is there already is not run again, but
for the rules of --again, whose verdicts take the place of those before. With
--page the tables, what was seen of each SLOW and NOT REACHED, and the requests behind each FAIL
stand on that page below its mark.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kipctl.conform.rules import RULES
from kipctl.conform.verdict import Role
from kipctl.documents.conform import ConformDocument, RuleVerdict
from kipctl.errors import ExitStatus
from kipctl.load.presets import PRESETS

PAGE_MARK = "<!-- made by benchmarks/conformance.py, from here on -->"
_SHORT = {"PASS": "pass", "SLOW": "slow", "N/A": "n/a", "NOT REACHED": "?"}
_JUDGED = (ExitStatus.DONE, ExitStatus.THRESHOLD_NOT_MET)


def held(preset: str, role: Role, folder: Path, again: str) -> str:
    """Run it, unless that was done, or these rules again; what went wrong, as a sentence."""
    path = folder / f"{preset}-{role}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if before and not again:
        return ""
    command = [sys.executable, "-m", "kipctl", "conform", "run", "--preset", preset]
    command += ["--as", role.value, "-o", "json", *(["--rules", again] if before else [])]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ran.returncode not in _JUDGED:
        return f"{preset} as a {role}: {' '.join(ran.stderr.split()[-40:])}"
    document = json.loads(ran.stdout)
    if before:
        new = {verdict["rule"]: verdict for verdict in document["rules"]}
        document["rules"] = [new.get(verdict["rule"], verdict) for verdict in before["rules"]]
    path.write_text(json.dumps(document), encoding="utf-8")
    return ""


def read(presets: Sequence[str], role: Role, folder: Path) -> dict[str, dict[str, RuleVerdict]]:
    """Verdicts by rule, of each client that was held."""
    documents: dict[str, ConformDocument] = {}
    for preset in presets:
        path = folder / f"{preset}-{role}.json"
        if path.exists():
            documents[preset] = json.loads(path.read_text(encoding="utf-8"))
    return {
        preset: {verdict["rule"]: verdict for verdict in document["rules"]}
        for preset, document in documents.items()
    }


def table(verdicts: dict[str, dict[str, RuleVerdict]], role: Role) -> Iterator[str]:
    """A row of each rule that is about the role, a column of each client."""
    heads = [
        preset
        if preset.endswith(PRESETS[preset].version)
        else f"{preset} {PRESETS[preset].version}"
        for preset in verdicts
    ]
    yield f"| as a {role} | " + " | ".join(heads) + " |"
    yield "|---" * (1 + len(heads)) + "|"
    for rule in RULES:
        if role in rule.least:
            cells = (
                _cell(preset, role, by_rule[rule.id]) if rule.id in by_rule else "not run"
                for preset, by_rule in verdicts.items()
            )
            yield f"| {rule.id} {rule.title} | " + " | ".join(cells) + " |"
    yield ""


def _cell(preset: str, role: Role, verdict: RuleVerdict) -> str:
    if verdict["status"] != "FAIL":
        return _SHORT[verdict["status"]]
    heading = _heading(preset, role, verdict).lower().replace(" ", "-")
    return f"[**fail**](#{re.sub(r'[^a-z0-9-]', '', heading)})"


def _heading(preset: str, role: Role, verdict: RuleVerdict) -> str:
    return f"{verdict['rule']}: {preset} as a {role}"


def evidence(verdicts: dict[str, dict[str, RuleVerdict]], role: Role) -> Iterator[str]:
    """The requests behind each FAIL."""
    for preset, by_rule in verdicts.items():
        for verdict in by_rule.values():
            if verdict["status"] == "FAIL":
                yield from (f"#### {_heading(preset, role, verdict)}", "", verdict["seen"], "")
                yield from ("```text", *verdict["evidence"], "```", "")


def neither(verdicts: dict[str, dict[str, RuleVerdict]], role: Role) -> Iterator[str]:
    """What was seen of each SLOW and NOT REACHED."""
    for preset, by_rule in verdicts.items():
        for verdict in by_rule.values():
            if verdict["status"] in ("SLOW", "NOT REACHED"):
                short, seen = _SHORT[verdict["status"]], " ".join(verdict["seen"].split())
                yield f"| {preset} | {role} | {verdict['rule']} | {short} | {seen} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=[*PRESETS], default=[*PRESETS], metavar="NAME")
    parser.add_argument("--at-once", type=int, default=3, metavar="CLIENTS")
    parser.add_argument("--role", nargs="+", type=Role, default=[*Role], metavar="ROLE")
    parser.add_argument("--again", default="", metavar="RULE,...")
    parser.add_argument("--page", type=Path, metavar="FILE")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.at_once) as pool:
        runs = [
            pool.submit(held, preset, role, options.to, options.again)
            for role in options.role
            for preset in options.only
            if role in PRESETS[preset].roles
        ]
        for run in runs:
            if trouble := run.result():
                print(trouble, file=sys.stderr, flush=True)
    of_roles = [(verdicts, r) for r in Role if (verdicts := read(options.only, r, options.to))]
    lines = [line for verdicts, role in of_roles for line in table(verdicts, role)]
    lines += [
        "## Slow, and not reached (?)",
        "",
        "| client | as | rule | | seen |",
        "|---" * 5 + "|",
    ]
    lines += [line for verdicts, role in of_roles for line in neither(verdicts, role)]
    lines += ["", "## The requests behind each fail", ""]
    lines += [line for verdicts, role in of_roles for line in evidence(verdicts, role)]
    text = "\n".join(lines).rstrip() + "\n"
    if options.page:
        above, mark, _ = options.page.read_text(encoding="utf-8").partition(PAGE_MARK)
        options.page.write_text(f"{above}{mark or PAGE_MARK}\n\n{text}", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
