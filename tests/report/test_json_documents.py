"""What commands print as JSON: declared, generated, and the same word for the same thing."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from json_documents import require_declared
from jsonschema import Draft202012Validator
from own_source import FILES, parsed

from kipctl.documents.commands import DOCUMENTS, documents_of
from kipctl.documents.measures import MEASURES, STATISTIC, heading
from kipctl.documents.schema import FILE, PAGE, page, schema, text
from kipctl.pipeline.keys import RUN_KEYS
from kipctl.pipeline.tables import TABLES, keys_of

REPOSITORY = Path(__file__).parents[2]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize(("file", "made"), [(PAGE, page), (FILE, lambda: text(schema()))])
def test_the_page_and_the_schema_are_those_of_the_declarations(file: str, made: Any) -> None:
    assert (REPOSITORY / file).read_text() == made(), "make generate"


def test_every_report_of_the_source_is_declared() -> None:
    commands = set()
    for file in FILES:
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Report":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    commands.add(first.value)
    assert len(commands) > 20
    for command in commands:
        assert documents_of(command)


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        ({"conditions": ["in-sync"]}, "'seconds' is a required property"),
        ({"conditions": "in-sync"}, "'in-sync' is not of type 'array'"),
        ({"waited": 1.0}, "'waited' does not match"),
    ],
)
def test_what_is_otherwise_is_said(document: dict[str, Any], wrong: str) -> None:
    usual = {
        "conditions": [],
        "seconds": 1.0,
        "partitions": 1,
        "broker_count": 1,
        "answering_brokers": [1],
        "asked_brokers": [1],
    }
    envelope = {"_command": "wait", "_version": "1"}
    require_declared({**envelope, **usual})
    if "seconds" in wrong:
        del usual["seconds"]
    with pytest.raises(AssertionError, match=r"wait: .* kipctl/documents: ") as raised:
        require_declared({**envelope, **usual, **document})
    assert wrong in str(raised.value)


def test_the_whole_schema_chooses_by_command() -> None:
    whole = Draft202012Validator(schema())
    flips = {"_command": "inspect replica-selection", "_version": "1", "flips": []}
    assert whole.is_valid(flips)
    assert not whole.is_valid({**flips, "_command": "inspect leaders"})
    for command in DOCUMENTS:
        assert not whole.is_valid({"_command": command, "_version": "1", "no_such_key": 1})


_AS_RECORDED = {"RollHow", "RollStep", "GuardAsked"}
"""What was asked for, and how far it came, as the journal has it."""


def test_percentiles_are_within_the_time_that_they_are_of() -> None:
    parts = schema()["$defs"]
    spreads = {
        name
        for name, part in parts.items()
        if any(STATISTIC.fullmatch(key) and key[0] == "p" for key in part.get("properties", {}))
    }
    assert {"Latency", "Longest", "PhaseTimes"} <= spreads
    for name, part in parts.items():
        for key, subschema in part.get("properties", {}).items():
            assert STATISTIC.fullmatch(key) or not re.search(r"(_|^)p\d", key), (name, key)
            if any(f'"#/$defs/{spread}"' in json.dumps(subschema) for spread in spreads):
                assert re.search("_ms(_by_run|_of_runs)?$", key) or name == "Phases", (name, key)


def test_times_and_rates_have_one_unit_in_every_document() -> None:
    for name, part in schema()["$defs"].items():
        for key in part.get("properties", {}):
            wrong = re.search(r"_(us|s|sec|min|per_s|per_sec|by_run_ms)$", key)
            assert not wrong or name in _AS_RECORDED, (name, key)


_BY_NAME = {
    "ClientsOfSides", "CpuOfBoth", "ErrorsByReader", "Phases", "ReadWays", "SuchAs",
}  # fmt: skip
"""Their keys are the names of what each value is of: a side, a reader, a phase."""
_KAFKAS = {"PlanDocument", "PhaseShown"}
"""As Kafka's own tool reads plans: `version` is a number there."""
_SEVERAL_KINDS = """
    broker conditions connections cpu_seconds dropped errors partitions records redirects requests
    verdict with without
"""
"""Keys that are of another kind in one document than in another (a count here, a list there): run
folders of earlier versions have them. None is to be added."""


def test_a_key_is_of_one_kind_in_every_document() -> None:
    """A number, a text, a flag, a list or an object."""
    parts = schema()["$defs"]

    def kinds(subschema: dict[str, Any]) -> set[str]:
        if "$ref" in subschema:
            return kinds(parts[subschema["$ref"].rpartition("/")[2]])
        if "anyOf" in subschema:
            return set().union(*map(kinds, subschema["anyOf"]))
        named = "string" if "enum" in subschema else subschema.get("type", "any")
        return {"number" if named == "integer" else named} - {"null"}

    key_kinds: dict[str, set[frozenset[str]]] = {}
    for name, part in parts.items():
        if name in _BY_NAME | _KAFKAS | _AS_RECORDED or name.endswith("ByRun"):
            continue
        for key, subschema in part.get("properties", {}).items():
            if name != "AnalysisDocument" or key not in {table.name for table in TABLES}:
                key_kinds.setdefault(key, set()).add(frozenset(kinds(subschema)))
    several = {key for key, variants in key_kinds.items() if len(variants) > 1}
    assert several == {*_SEVERAL_KINDS.split()}


def test_tables_of_runs_have_the_keys_of_the_documents_of_runs() -> None:
    columns = {t.name: {n for c in t.columns for n in c.written_out} for t in TABLES}
    parts = schema()["$defs"]
    assert {"wait_ms.p50", "wait_ms.p99", "wait_ms.max"} <= columns["moves"]
    for phase in parts["Phases"]["properties"]:
        for statistic in parts["PhaseTimes"]["properties"]:
            assert f"phases_ms.{phase}.{statistic}" in columns["redirects"]
    for key in ("called_ms", "answered_ms", "converged_ms"):
        assert key in parts["Action"]["properties"]
        assert key in columns["actions"]
    for names in columns.values():
        assert not [name for name in names if re.search(r"_us$|_p\d", name)]


def test_help_and_shells_name_every_key_of_by() -> None:
    assert keys_of(TABLES) == RUN_KEYS


def test_every_measure_is_in_a_document() -> None:
    keys = {key for part in schema()["$defs"].values() for key in part.get("properties", {})}
    keys |= {n.split(".")[0] for t in TABLES for c in t.columns for n in c.written_out}
    assert MEASURES.keys() - keys == set()


@pytest.mark.parametrize(
    ("path", "title", "shown"),
    [
        ("wait_ms.p50", None, "wait p50 ms"),
        ("redirects.moves.wait_ms.p999", None, "wait p99.9 ms"),
        ("latency_ms.p99", "", "p99 ms"),
        ("phases_ms.queued.sum", "", "sum"),
        ("seconds", None, "s"),
        ("in_sync_seconds", None, "in sync s"),
        ("busy_percent", None, "busy %"),
        ("client_share_ms.max", None, "client's wait max ms"),
    ],
)
def test_a_heading_follows_from_the_key(path: str, title: str | None, shown: str) -> None:
    assert heading(path, title) == shown
