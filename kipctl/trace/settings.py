"""What a run was made with, out of its `run.json`, and how runs differ in that."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from kipctl.documents.analysis import SettingDiffers

_NO_SETTINGS = frozenset(
    {
        "schema_version",
        "started",
        "start_wall_us",
        "interval_ns",  # follows from the throughput
        "bootstrap_server",  # of the cluster its id is shown
        "failed",
        "stopped",  # shown with how far it came
        "summary",
        "cluster_before",
        "cluster_after",
        "kept_from_s",  # shown with how long it lasted
        "lasted_s",
    }
)


def settings(description: Mapping[str, Any]) -> dict[str, str]:
    """What the run was made with, by name: kipctl's options, the cluster, Kafka's properties.

    Whatever else `run.json` says in single values is a setting too. Properties of the producer
    have Kafka's names (`acks`, `batch.size`); `actions` is what was done meanwhile, "3 x rotate".
    """
    of_run: dict[str, str] = {}
    properties: dict[str, str] = {}
    for name, value in description.items():
        if name in _NO_SETTINGS or isinstance(value, list):
            continue
        if isinstance(value, Mapping):
            properties |= {inner: _text(item) for inner, item in value.items() if _is_single(item)}
        else:
            of_run[name] = _text(value)
    of_run |= dict(_of_summary(description)) | dict(_of_cluster(description))
    return of_run | properties


def differences(
    a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
) -> list[SettingDiffers]:
    """The settings in which not all of these runs agree, from their `run.json`.

    How far an interrupted run came is one of them.
    """
    sides = [[_with_interruption(description) for description in side] for side in (a, b)]
    names = dict.fromkeys(name for side in sides for run in side for name in run)
    differing: list[SettingDiffers] = []
    for name in names:
        values = [list(dict.fromkeys(run.get(name, "-") for run in side)) for side in sides]
        if len(set(values[0] + values[1])) > 1:
            a_values, b_values = map(" | ".join, values)
            differing.append(SettingDiffers(setting=name, a_values=a_values, b_values=b_values))
    return differing


def actions_in_short(description: Mapping[str, Any]) -> str:
    """What was done to the cluster meanwhile: "3 x rotate, 1 x elect"; "none".

    Of a run whose recorder was killed it is not known how often.
    """
    if description.get("repaired") and description.get("during"):
        return f"{description['during']}, how often is not known"
    summary = description.get("summary") or {}
    if times := summary.get("rotations"):  # by `kipctl tap --rotate`
        return f"{times} x rotate"
    done = summary.get("actions") or ()
    kinds = groupby(str(action["action"]) for action in done)
    return ", ".join(f"{len(list(same))} x {kind}" for kind, same in kinds) or "none"


def interrupted_after(description: Mapping[str, Any]) -> str:
    """How far a run came that was interrupted: "27,391 of 80,000 records"; empty if none was."""
    if not description.get("stopped"):
        return ""
    records = record_counts(description.get("summary") or {})
    done, planned = records.get("sent", records.get("read")), description.get("num_records")
    counts = (f"{count:,}" if isinstance(count, int) else "?" for count in (done, planned))
    return f"{' of '.join(counts)} records"


def end_of(description: Mapping[str, Any]) -> str:
    """Of a run whose beginning is not kept: "from 3,600 s on, of 90,000 s"; else empty."""
    from_s, of_s = description.get("kept_from_s"), description.get("lasted_s")
    if not isinstance(from_s, int | float) or not from_s:
        return ""
    lasted = f", of {of_s:,.0f} s" if isinstance(of_s, int | float) else ""
    return f"from {from_s:,.0f} s on{lasted}"


def record_counts(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """How many records were sent, acknowledged, read, as far as a summary says so.

    That of `experiment metadata` has one number, of those acknowledged.
    """
    match summary.get("records"):
        case Mapping() as counts:
            return counts
        case int(acknowledged):
            return {"acknowledged": acknowledged}
        case _:
            return {}


def _with_interruption(description: Mapping[str, Any]) -> dict[str, str]:
    reported = interrupted_after(description)
    return settings(description) | ({"interrupted": reported} if reported else {})


def _of_summary(description: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    summary = description.get("summary") or {}
    for name in ("topic", "kafka_version", "cluster_id", "rotated_topic"):
        if name in summary:
            yield name, _text(summary[name])
    if "actions" in summary:
        yield "actions", actions_in_short(description)


def _of_cluster(description: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cluster = description.get("cluster_before")
    if not cluster:
        return
    brokers, partitions = cluster["brokers"], cluster["partitions"]
    yield "cluster_id", str(cluster["cluster_id"])
    yield "brokers", str(len(brokers))
    yield "racks", str(len({broker["rack"] for broker in brokers} - {None}))
    yield "partitions", str(len(partitions))
    factors = sorted({len(partition["replicas"]) for partition in partitions})
    yield "replication_factor", ", ".join(map(str, factors)) or "-"


def _is_single(value: object) -> bool:
    return not isinstance(value, Mapping | list)


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.15g}"
        case _:
            return str(value)
