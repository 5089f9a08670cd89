"""The tables of a request log's document as Parquet."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kipctl.pipeline.analysis import Answer


def saved_answers(document: Mapping[str, Any]) -> dict[str, Answer]:
    """The tables of the document, flat, keyed by `cluster`; of those that grow with the fleet the
    rows that the document has."""
    names = ("fleet", "errors", *_LISTS)
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for cluster in document["clusters"]:
        key = {"cluster": cluster["cluster_id"]}
        tables["fleet"] += [key | _flat(row) for row in cluster["fleet"]]
        for name in _LISTS:
            tables[name] += [key | _flat(row) for row in cluster[name]]
        for name in ("produce_errors", "fetch_errors"):
            tables["errors"] += [
                key | {"api": name.removesuffix("_errors"), "error": int(code), "answers": count}
                for code, count in cluster[name].items()
            ]
    return {name: Answer(rows, _schema(rows), len(rows)) for name, rows in tables.items() if rows}


_LISTS = (
    *("reads", "clocks", "principals", "talkers", "deprecated", "metadata_clients"),
    *("latency_by_api", "latency_by_broker", "latency_by_client"),
)


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """What is in a mapping by names put together: `wait_ms_p50`; versions of APIs and lists
    as text."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("requests_by_api", "by_cause"):
            flat[prefix + name] = "; ".join(
                f"{key} {', '.join(counts) if isinstance(counts, Mapping) else counts}"
                for key, counts in value.items()
            )
        elif isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}_")
        elif isinstance(value, list):
            flat[prefix + name] = "; ".join(value)
        else:
            flat[prefix + name] = value
    return flat


def _schema(rows: Iterable[Mapping[str, Any]]) -> StructType:
    """Of rows alike: the types of their values; a column without any is one of reals."""
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return StructType([StructField(name, _type_of(column)) for name, column in values.items()])


def _type_of(values: Iterable[Any]) -> DataType:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, str) for value in known):  # also texts with commands
        return StringType()
    if known and all(isinstance(value, bool) for value in known):
        return BooleanType()
    return LongType() if {type(value) for value in known} == {int} else DoubleType()
