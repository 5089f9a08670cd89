"""Whether what commands print is what they declare (`kipctl.documents`)."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from kipctl.documents.commands import documents_of
from kipctl.documents.schema import schema, schema_of


@cache
def _validators(command: str) -> tuple[Draft202012Validator, ...]:
    """One for each of the documents that the command prints."""
    return tuple(
        Draft202012Validator(schema_of([kind], _whole())) for kind in documents_of(command)
    )


@cache
def _whole() -> dict[str, Any]:
    return schema()


def require_declared(document: dict[str, Any]) -> None:
    """Raise AssertionError, with what is otherwise, for a document that is none of its command's.

    That is said of the document that it is nearest to.
    """
    shown = json.loads(json.dumps(document))
    wrong = [
        [cause for error in validator.iter_errors(shown) for cause in error.context or [error]]
        for validator in _validators(document["_command"])
    ]
    if not all(wrong):
        return
    error = best_match(min(wrong, key=len))
    assert error
    where = ".".join(map(str, error.absolute_path)) or "the document"
    raise AssertionError(
        f"{document['_command']}: {where} is not as it is declared in kipctl/documents:"
        f" {error.message[:600]}"
    )
