"""docs/pipeline.md has every key and column of every table, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from runs import write_run

from kipctl.pipeline.analysis import Question, makes
from kipctl.pipeline.inputs import open_runs
from kipctl.pipeline.table import Source
from kipctl.pipeline.table_docs import DOCS, written_into
from kipctl.pipeline.tables import TABLES, keys_of

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / DOCS


def section(table: str) -> str:
    [text] = re.findall(
        rf"^## {table}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert isinstance(text, str)
    return text


def documented(table: str) -> list[str]:
    """The columns in the first cells of the section's table."""
    cells = re.findall(r"^\| (`[^|]*) \|", section(table), re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_what_it_says_of_tables_is_what_they_are_declared_as() -> None:
    page = PAGE.read_text()
    assert written_into(page, TABLES) == page, "the tables have changed: run `make generate`"
    asked = page.count("Keys for `--by`")
    assert asked == sum(bool(table.by) for table in TABLES)


def _paths(schema: StructType, within: str = "") -> Iterator[str]:
    """The columns, those in a column as `wait_ms.p50`."""
    for field in schema.fields:
        if isinstance(field.dataType, StructType):
            yield from _paths(field.dataType, f"{within}{field.name}.")
        else:
            yield f"{within}{field.name}"


@pytest.mark.parametrize("by", [(), keys_of(TABLES)], ids=["all in one", "by all keys"])
def test_every_table_has_its_keys_and_the_columns_declared_and_no_other(
    spark: SparkSession, tmp_path: Path, by: tuple[str, ...]
) -> None:
    write_run(tmp_path / "r", {}, batches=[])
    source = Source(open_runs(spark, [str(tmp_path / "r")]), window_us=1)
    made = makes(source, Question(by), whole=True)
    assert set(made) == {table.name for table in TABLES}
    for table in TABLES:
        columns = list(_paths(made[table.name]().schema))
        keys = table.key_columns(by)
        declared = {name for each in table.columns for name in each.written_out}
        assert len(set(columns)) == len(columns), table.name
        assert set(keys) <= set(columns), table.name
        assert set(columns) == declared | set(keys), table.name
