"""Every client that kipctl can start, held against every rule: the table of docs/conformance.md.

    python benchmarks/conformance.py --to FOLDER [--only kafkajs ...] [--at-once 3] [--page FILE]

`kipctl conform run --preset NAME --as ROLE -o json` for each, so many at once: what they send is
little, and kipctl's own client tells each time whether the machine is too busy. FOLDER keeps what
each printed, with the requests behind every verdict; what is there already is not run again. With
--page the table, and the requests behind each FAIL, stand on that page below its mark.
"""

import argparse
import json
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
_SHORT = {"PASS": "pass", "SLOW": "slow", "FAIL": "**fail**", "N/A": "n/a", "NOT REACHED": "?"}
_JUDGED = (ExitStatus.DONE, ExitStatus.THRESHOLD_NOT_MET)


def held(preset: str, role: Role, folder: Path) -> str:
    """Run it, unless that was done; what went wrong, as a sentence."""
    path = folder / f"{preset}-{role}.json"
    if path.exists():
        return ""
    command = [sys.executable, "-m", "kipctl", "conform", "run", "--preset", preset]
    command += ["--as", role.value, "-o", "json"]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ran.returncode not in _JUDGED:
        return f"{preset} as a {role}: {' '.join(ran.stderr.split()[-40:])}"
    path.write_text(ran.stdout, encoding="utf-8")
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
                _SHORT[by_rule[rule.id]["status"]] if rule.id in by_rule else "not run"
                for by_rule in verdicts.values()
            )
            yield f"| {rule.id} {rule.title} | " + " | ".join(cells) + " |"
    yield ""


def faults(verdicts: dict[str, dict[str, RuleVerdict]], role: Role) -> Iterator[str]:
    """The requests behind each FAIL."""
    for preset, by_rule in verdicts.items():
        for verdict in by_rule.values():
            if verdict["status"] == "FAIL":
                yield f"**{preset}, {role}, {verdict['rule']}**: {verdict['seen']}"
                yield from ("", "```text", *verdict["evidence"], "```", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=[*PRESETS], default=[*PRESETS], metavar="NAME")
    parser.add_argument("--at-once", type=int, default=3, metavar="CLIENTS")
    parser.add_argument("--page", type=Path, metavar="FILE")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.at_once) as pool:
        runs = [
            pool.submit(held, preset, role, options.to)
            for role in Role
            for preset in options.only
            if role in PRESETS[preset].roles
        ]
        for run in runs:
            if trouble := run.result():
                print(trouble, file=sys.stderr, flush=True)
    of_roles = [(read(options.only, role, options.to), role) for role in Role]
    lines = [line for verdicts, role in of_roles for line in table(verdicts, role)]
    lines += ["### What was seen of each fail", ""]
    lines += [line for verdicts, role in of_roles for line in faults(verdicts, role)]
    text = "\n".join(lines).rstrip() + "\n"
    if options.page:
        above, mark, _ = options.page.read_text(encoding="utf-8").partition(PAGE_MARK)
        options.page.write_text(f"{above}{mark or PAGE_MARK}\n\n{text}", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
