"""docs/pipeline.md has every column of every table, and no other."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from frames import action_frame, frame, of_schema
from pyspark.sql import DataFrame, SparkSession

from kipctl.pipeline.actions import WINDOWS, action_table
from kipctl.pipeline.analysis import DIMENSIONS
from kipctl.pipeline.episodes import ATTEMPTS, episode_table, episodes
from kipctl.pipeline.latency import failures, latency, volumes
from kipctl.pipeline.reads import flip_table, out_of_range_table, read_error_table, read_table
from kipctl.pipeline.redirects import failed_batches, redirect_table
from kipctl.pipeline.rpcs import metadata_table, rpc_table
from kipctl.trace.codes import PHASES

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs" / "pipeline.md"
PLACEHOLDERS = {"<phase>": PHASES, "<window>": WINDOWS}


def section(table: str) -> str:
    [text] = re.findall(
        rf"^## {table}$(.*?)(?=^## |\Z)", DOCS.read_text(), re.MULTILINE | re.DOTALL
    )
    assert isinstance(text, str)
    return text


def documented(table: str) -> list[str]:
    """The columns in the first cells of the section's table, with placeholders written out."""
    cells = re.findall(r"^\| (`[^|]*) \|", section(table), re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    for placeholder, values in PLACEHOLDERS.items():
        names = [
            name.replace(placeholder, value)
            for name in names
            for value in (values if placeholder in name else ("",))
        ]
    return names


def failed(spark: SparkSession) -> DataFrame:
    return frame(spark, "redirects", []).transform(failed_batches, action_frame(spark, []))


def reads(spark: SparkSession) -> DataFrame:
    return frame(spark, "reads", [])


def rpcs(spark: SparkSession) -> DataFrame:
    return frame(spark, "rpcs", [])


def batches(spark: SparkSession) -> DataFrame:
    return frame(spark, "batches", [])


TABLES: dict[str, Callable[[SparkSession], DataFrame]] = {
    "records": lambda spark: volumes(batches(spark), []),
    "latency": lambda spark: latency(batches(spark), []),
    "failures": lambda spark: failures(batches(spark), []),
    "redirects": lambda spark: redirect_table(failed(spark), []),
    "episodes": lambda spark: episode_table(episodes(of_schema(spark, ATTEMPTS, [])), []),
    "rpcs": lambda spark: rpc_table(rpcs(spark), []),
    "reads": lambda spark: read_table(reads(spark), []),
    "flips": lambda spark: flip_table(reads(spark), []),
    "read_errors": lambda spark: read_error_table(reads(spark), []),
    "out_of_range": lambda spark: out_of_range_table(reads(spark), []),
    "actions": lambda spark: action_table(
        action_frame(spark, []), batches(spark), failed(spark), reads(spark)
    ),
}


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_documented(spark: SparkSession, table: str) -> None:
    assert sorted(documented(table)) == sorted(TABLES[table](spark).columns)


def test_metadata_has_the_columns_of_rpcs_and_those_told(spark: SparkSession) -> None:
    columns = metadata_table(rpcs(spark), []).columns
    assert sorted(documented("rpcs") + documented("metadata")) == sorted(columns)


@pytest.mark.parametrize("table", DIMENSIONS)
def test_keys_for_by_are_those_that_it_takes(table: str) -> None:
    [keys] = re.findall(r"^Keys for `--by`: ([^.]*)\.", section(table), re.MULTILINE)
    assert sorted(re.findall(r"`([^`]+)`", keys)) == sorted(DIMENSIONS[table])


def test_no_other_table_is_said_to_take_keys() -> None:
    assert DOCS.read_text().count("Keys for `--by`") == len(DIMENSIONS)
