"""One JSON Schema of what every command prints, and docs/json.md, both from the declarations."""

from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from pathlib import Path
from typing import Any

import msgspec

from kipctl.documents.commands import DOCUMENTS, OPEN
from kipctl.documents.measures import MEASURES

Schema = dict[str, Any]

PAGE = "docs/json.md"
FILE = "docs/json-schema.json"
_TEMPLATE = "#/$defs/{name}"
_BESIDES: Schema = {"patternProperties": {"^_": {}}}
"""What the writer adds to every document begins with an underscore (`Envelope`)."""


def schema() -> Schema:
    """The JSON Schema (2020-12) of all documents: by `_command`, the shapes that it prints."""
    kinds = list(dict.fromkeys(kind for kinds in DOCUMENTS.values() for kind in kinds))
    _, parts = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    for part in parts.values():
        if "properties" in part:
            part["additionalProperties"] = False
    for kind in kinds:
        parts[kind.__name__] |= _BESIDES
    for kind in OPEN:
        del parts[kind.__name__]["additionalProperties"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What kipctl prints with --output json",
        "required": ["_command", "_version"],
        "allOf": [
            {"if": _is_of(command), "then": {"anyOf": list(map(_ref, kinds))}}
            for command, kinds in DOCUMENTS.items()
        ],
        "$defs": parts,
    }


def _is_of(command: str) -> Schema:
    """Of this command, or of one that begins with it and is not declared by itself."""
    longer = [name for name in DOCUMENTS if name.startswith(f"{command} ")]
    is_of: Schema = {"pattern": f"^{command}( |$)"}
    if longer:
        is_of["not"] = {"pattern": f"^({'|'.join(longer)})( |$)"}
    return {"properties": {"_command": is_of}}


def _ref(kind: type) -> Schema:
    return {"$ref": _TEMPLATE.format(name=kind.__name__)}


def schema_of(kinds: Iterable[type], whole: Schema) -> Schema:
    """The part of a whole schema that is of these kinds of documents."""
    return {"$schema": whole["$schema"], "anyOf": list(map(_ref, kinds)), "$defs": whole["$defs"]}


def text(whole: Schema) -> str:
    """A schema as its file has it: a line of each part."""
    parts = ",\n".join(f"  {dumps(name)}: {dumps(part)}" for name, part in whole["$defs"].items())
    head = dumps({key: value for key, value in whole.items() if key != "$defs"})
    return f'{head[:-1]}, "$defs": {{\n{parts}\n}}}}\n'


def page() -> str:
    """docs/json.md."""
    parts = schema()["$defs"]
    return "\n".join(
        (
            _HEAD,
            *(
                f"| `{command}` | {' or '.join(map(_linked, (kind.__name__ for kind in kinds)))} |"
                for command, kinds in DOCUMENTS.items()
            ),
            "\n## Their parts",
            *(line for name in sorted(parts) for line in _section(name, parts[name])),
            "",
        )
    )


_HEAD = f"""\
# What commands print as JSON

With `--output json` every command prints one document: `_command`, `_version`, `_cluster` (which
cluster it is about, if it is about one), and what stands here. This page is made from the
declarations in `kipctl/documents`; [json-schema.json]({Path(FILE).name}) says the same to programs.

The end of a name is its unit: `_ms`, `_us`, `_s` and `_seconds`, `bytes`, `_percent`,
`_per_second`; a `share` is from 0 to 1. Percentiles (`p50`, `p999`: 99.9 %) are nearest-rank. What
is not known is `null`.

| command | document |
|---|---|"""


def _section(name: str, part: Schema) -> Iterator[str]:
    yield f"\n### {name}\n"
    if said := part.get("description", ""):
        yield " ".join(said.split()) + "\n"
    yield from ("| key | what it is |", "|---|---|")
    for key, field in part.get("properties", {}).items():
        optional = "" if key in part.get("required", ()) else ", not always there"
        meaning = f": {MEASURES[key].meaning}" if key in MEASURES else ""
        yield f"| `{key}` | {_type(field)}{optional}{meaning} |"


_WORDS = {"integer": "whole number", "string": "text", "boolean": "true or false"}


def _type(part: Mapping[str, Any]) -> str:
    """A type in words, with links to the parts that it is made of."""
    if "$ref" in part:
        return _linked(part["$ref"].rpartition("/")[2])
    if "anyOf" in part:
        return " or ".join(map(_type, part["anyOf"]))
    kind: str = part.get("type", "anything")
    if kind == "array":
        return f"list of {_type(part.get('items', {}))}"
    if kind == "object":
        return f"{_type(part.get('additionalProperties', {}))} by name"
    return _WORDS.get(kind, kind)


def _linked(name: str) -> str:
    return f"[{name}](#{name.lower()})"
