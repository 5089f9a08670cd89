"""The tables of a request log's document as Parquet."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

from kipctl.pipeline.analysis import Answer


def saved_answers(document: Mapping[str, Any]) -> dict[str, Answer]:
    """The tables of the document that do not grow with the fleet, flat, keyed by `cluster`."""
    rows: dict[str, list[dict[str, Any]]] = {"fleet": [], "reads": [], "errors": [], "clocks": []}
    for of in document["clusters"]:
        cluster = {"cluster": of["cluster_id"]}
        rows["fleet"] += [cluster | _flat(row) for row in of["fleet"]]
        rows["reads"] += [cluster | row for row in of["reads"]]
        rows["clocks"] += [cluster | row for row in of["clocks"]]
        for name in ("produce_errors", "fetch_errors"):
            rows["errors"] += [
                cluster
                | {"api": name.removesuffix("_errors"), "error": int(code), "answers": count}
                for code, count in of[name].items()
            ]
    return {name: Answer(of, _schema(of), len(of)) for name, of in rows.items() if of}


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """What is in a mapping by names put together: `wait_ms_p50`; versions of APIs and lists
    as text."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("apis", "by_cause"):
            pairs = value.items()
            flat[prefix + name] = "; ".join(
                f"{key} {', '.join(of) if isinstance(of, Mapping) else of}" for key, of in pairs
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
    return StructType([StructField(name, _type_of(of)) for name, of in values.items()])


def _type_of(values: Iterable[Any]) -> DataType:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, str) for value in known):  # also texts with commands
        return StringType()
    return LongType() if {type(value) for value in known} == {int} else DoubleType()
