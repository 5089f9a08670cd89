"""What a run's `run.json` must be like for what reads it: other hands may have written it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_NUMBER = (int, float)
_NUMBER_OR_NULL = (int, float, type(None))


@dataclass(frozen=True, slots=True)
class _ListOf:
    """A list whose items have all of these fields."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Record:
    """An object that has all of these fields, or nothing at all."""

    fields: Mapping[str, Any]


_ACTION = {
    "action": str,
    "called_ms": _NUMBER,
    "answered_ms": _NUMBER_OR_NULL,
    "converged_ms": _NUMBER_OR_NULL,
    "partitions": (int, type(None)),
    "error": (str, type(None)),
}
_FIELDS = {
    "interval_ns": int,
    "warmup_records": int,
    "start_wall_us": int,
    "started": str,
    "producer": {},
    "cluster_before": _Record(
        {
            "cluster_id": (str, type(None)),
            "brokers": _ListOf({"rack": (str, type(None))}),
            "partitions": _ListOf({"replicas": list}),
        }
    ),
    "summary": {
        "actions": _ListOf(_ACTION),
        "latency_ms": dict.fromkeys(("p50", "p99", "p999"), _NUMBER_OR_NULL),
        "records_per_second": _NUMBER_OR_NULL,
    },
}
"""Fields by name with their types; those of the run may be missing."""


def wrong_field(description: Mapping[str, Any]) -> str:
    """Which field of a description is not of its type: "summary.actions[0].called_ms is missing".

    Empty when nothing is wrong.
    """
    # A run that failed has no summary.
    given = dict(field for field in description.items() if field != ("summary", None))
    return _wrong(given, _FIELDS, "")


def _wrong(value: Any, shape: Any, name: str) -> str:
    flaws: Iterator[str]
    match shape:
        case _ListOf(fields):
            if not isinstance(value, list):
                return f"{name} is {_type_of(value)}"
            every = ((item, fields, f"{name}[{at}]") for at, item in enumerate(value))
            flaws = (_lacking(*item) or _wrong(*item) for item in every)
        case _Record(fields):
            if not value:
                return ""
            flaws = iter((_lacking(value, fields, name), _wrong(value, fields, name)))
        case Mapping():
            if not isinstance(value, Mapping):
                return f"{name} is {_type_of(value)}"
            within = f"{name}." if name else ""
            flaws = (_wrong(value[key], shape[key], within + key) for key in shape if key in value)
        case _:
            return "" if isinstance(value, shape) else f"{name} is {_type_of(value)}"
    return next(filter(None, flaws), "")


def _lacking(value: Any, fields: Mapping[str, Any], name: str) -> str:
    missing = [field for field in fields if isinstance(value, Mapping) and field not in value]
    return f"{name}.{missing[0]} is missing" if missing else ""


def _type_of(value: Any) -> str:
    return "null" if value is None else f"of a wrong type ({type(value).__name__})"
