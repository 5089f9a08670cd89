"""What docs/pipeline.md says of the keys and columns of each table, from its declaration."""

import re
from collections.abc import Iterable

from kipctl.pipeline.table import Table

DOCS = "docs/pipeline.md"


def as_markdown(table: Table) -> str:
    """Its keys in a paragraph, its columns in a table."""
    if table.by:
        keys = f"Keys for `--by`: {_code(table.by)}."
        keys += f" Always there: {_code(table.always)}." if table.always else ""
    else:
        keys = f"Keys: {_code(table.always)}; `--by` does not change this table."
    rows = [f"| {_code(columns.names)} | {columns.meaning} |" for columns in table.columns]
    return "\n".join([keys, "", "| column | what it is |", "|---|---|", *rows])


def written_into(text: str, tables: Iterable[Table]) -> str:
    """The page with these paragraphs in the sections of their tables, in place of those there."""
    for table in tables:
        section = re.compile(
            rf"(^## {table.name}\n(?:(?!^## ).*\n)*?)Keys.*\n\n(?:\|.*(?:\n|\Z))+", re.MULTILINE
        )
        text, count = section.subn(lambda at, table=table: f"{at[1]}{as_markdown(table)}\n", text)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"{DOCS} has no section {table.name} with keys and columns")
    return text


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
