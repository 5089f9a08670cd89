"""What commands print as JSON: declared, generated, and the same word for the same thing."""

import ast
from pathlib import Path
from typing import Any

import pytest
from json_documents import require_declared
from jsonschema import Draft202012Validator

from kipctl.documents.commands import DOCUMENTS, documents_of
from kipctl.documents.measures import MEASURES
from kipctl.documents.schema import FILE, PAGE, page, schema, text

REPOSITORY = Path(__file__).parents[2]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize(("file", "made"), [(PAGE, page), (FILE, lambda: text(schema()))])
def test_the_page_and_the_schema_are_those_of_the_declarations(file: str, made: Any) -> None:
    assert (REPOSITORY / file).read_text() == made(), "make generate"


def test_every_report_of_the_source_is_declared() -> None:
    commands = set()
    for path in (REPOSITORY / "kipctl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
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
        "brokers": 1,
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


def test_every_measure_is_in_a_document() -> None:
    keys = {key for part in schema()["$defs"].values() for key in part.get("properties", {})}
    assert MEASURES.keys() - keys == set()
