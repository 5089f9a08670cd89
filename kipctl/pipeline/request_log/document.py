"""The document of `analyze request-log --output json`, from the rows of its tables."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from kipctl.client_behaviour.behaviour import Behaviour, expected, verdict_document
from kipctl.client_behaviour.findings.catalogue import known_bug
from kipctl.client_behaviour.software import Software
from kipctl.documents.analysis import (
    ApiUse,
    ClockDifference,
    FleetRow,
    LoggedBroker,
    LoggedCluster,
    LoggedMetadata,
    MetadataAsker,
    NotLeader,
    Period,
    RackBytes,
    RackReads,
    RefusedClient,
    RequestLogAnalysis,
)
from kipctl.documents.pages import Row, Rows
from kipctl.pipeline.request_log.behaviours import counts_of, seen_of
from kipctl.pipeline.request_log.coverage import Logged, hours_apart
from kipctl.pipeline.request_log.findings import findings_of
from kipctl.pipeline.request_log.log import RequestLog
from kipctl.pipeline.request_log.places import Node, unknown
from kipctl.pipeline.request_log.took import latency_of
from kipctl.pipeline.request_log.traffic import (
    deprecated_of,
    principals_of,
    rackless_reads,
    talkers_of,
)
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import OWN_SOFTWARE
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.trace.codes import MetadataCause

_LEAST_MOVES = 10
"""Fewer may all be of clients that learned of a move without being refused."""
_CAUSES = [cause.name.lower() for cause in MetadataCause]
_SHOWN = {"client": "client_id", "software_name": "software"}


def document_of(
    log: RequestLog, rows: Mapping[str, Rows], price_per_gb: float | None = None
) -> RequestLogAnalysis:
    """The document: of all lines, and of each cluster by itself."""
    clusters = sorted({row["cluster"] for row in rows["usage"]}, key=lambda name: name or "")
    return {
        "lines": log.lines,
        "copies": dict(log.copies),
        "envelopes": dict(log.envelopes),
        "untimed": log.untimed,
        "turned_clocks": [
            {"file": file, "at": _moment(turn.at_us), "is_forward": turn.is_forward}
            for file, turn in log.turns.items()
        ],
        "broken_lines": list(log.broken),
        "clusters": [
            _cluster(
                log,
                cluster,
                {
                    name: [row for row in table if row["cluster"] == cluster]
                    for name, table in rows.items()
                },
                price_per_gb,
            )
            for cluster in clusters
        ],
        "price_per_gb": price_per_gb,
    }


def _cluster(
    log: RequestLog, cluster: str | None, rows: Mapping[str, Rows], price_per_gb: float | None
) -> LoggedCluster:
    errors = rows["errors"]
    produce = [row for row in errors if row["api_key"] == ApiKey.PRODUCE]
    fetch = [row for row in errors if row["api_key"] == ApiKey.FETCH]
    refused = [row for row in produce if row["error"] == ErrorCode.NOT_LEADER_OR_FOLLOWER]
    period = _period(rows["usage"])
    clocks = clocks_of(rows.get("clocks", []))
    clients = [row for row in rows["clients"] if row["is_client"]]
    at = [
        (source, place)
        for source, place in zip(log.seen, log.places, strict=True)
        if place.cluster == cluster
    ]
    hours = hours_apart(
        {broker: own for (of_cluster, broker), own in log.logged.items() if of_cluster == cluster}
    )
    not_known = unknown([source for source, _ in at], [place for _, place in at])
    racks = {node.rack for node in log.nodes.get(cluster or "", ()) if node.rack is not None}
    return {
        "cluster_id": cluster,
        "period": period,
        "apis": [
            cast(ApiUse, {_SHOWN.get(name, name): row[name] for name in row if name != "cluster"})
            for row in sorted(rows["apis"], key=lambda r: (r["api_key"], r["api_version"]))
        ],
        "clients": [
            {
                "software": row["software_name"],
                "version": row["software_version"],
                "client_id": row["client"],
                "origin": row["origin"],
                "requests": row["requests"],
                "connections": row["connections"],
                "hosts": row["hosts"],
            }
            for row in sorted(clients, key=lambda row: (_is_own(row), -row["requests"]))
        ],
        "fleet": _fleet(rows),
        "findings": findings_of([*rows.get("facts", []), *rows["storms"]]),
        "refused_clients": _refused_clients(rows.get("behaviours", [])),
        "produce_not_leader": _not_leader(refused),
        "produce_errors": _by_code(produce),
        "fetch_errors": _by_code(fetch),
        "fetch_errors_by_reader": {
            "consumers": _by_code(row for row in fetch if row["origin"] == "client"),
            "replicas": _by_code(row for row in fetch if row["origin"] != "client"),
        },
        "error_names": {
            str(code): error_name(code) for code in sorted({row["error"] for row in errors} - {0})
        },
        "preferred_read_replica": {"named": _partitions(row for row in fetch if row["named"])},
        "metadata": _metadata(
            row for row in rows["metadata"] if not row["is_client"] and not _is_own(row)
        ),
        "metadata_clients": _metadata_clients(rows["metadata"]),
        "reads": _reads(rows["reads"]),
        **latency_of(rows["took"]),
        "principals": principals_of(rows["principals"]),
        "talkers": talkers_of(rows["talkers"], racks, price_per_gb),
        "rackless_reads": rackless_reads(rows["talkers"], racks, price_per_gb),
        "deprecated": deprecated_of(rows["deprecated"]),
        "brokers": [
            _broker(
                node,
                nodes,
                sorted({place.address for _, place in at if place.broker == node}),
                log.logged.get((cluster, node)),
                hours.get(node),
            )
            for node, nodes in sorted(_by_id(log, cluster).items())
        ],
        "requests_served": sum(source.served for source, _ in at),
        "requests_of_unknown_brokers": {
            address: sum(source.served for source in not_known if source.address == address)
            for address in sorted({source.address for source in not_known})
        },
        "clocks": clocks,
    }


def _is_own(row: Row) -> bool:
    return bool(row["software_name"] == OWN_SOFTWARE)


def _software(row: Row) -> Software:
    return Software(row["software_name"], row["software_version"])


def _by_id(log: RequestLog, cluster: str | None) -> dict[int, list[Node]]:
    nodes: dict[int, list[Node]] = defaultdict(list)
    for node in sorted(log.nodes.get(cluster or "", ()), key=lambda node: node.address):
        nodes[node.id].append(node)
    return nodes


def _broker(
    node: int,
    nodes: Sequence[Node],
    addresses: list[str],
    logged: Logged | None,
    hours_apart: float | None,
) -> LoggedBroker:
    """A broker, and what there is of its log."""
    times, gaps = (logged.times, logged.gaps) if logged else ((), ())
    return {
        "broker": node,
        "rack": next((endpoint.rack for endpoint in nodes if endpoint.rack is not None), None),
        "advertised": sorted({endpoint.address for endpoint in nodes}),
        "addresses": addresses,
        "line_count": logged.lines if logged else 0,
        "from": _moment(times[0][0]) if times else None,
        "to": _moment(times[-1][1]) if times else None,
        "gaps": [{"from": _moment(start), "to": _moment(end)} for start, end in gaps],
        "hours_apart": hours_apart,
        "seconds": 60 * logged.minutes if logged and logged.minutes else None,
    }


def _moment(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="milliseconds")


def _period(rows: Rows) -> Period:
    first = min((row["first_us"] for row in rows if row["first_us"] is not None), default=None)
    last = max((row["last_us"] for row in rows if row["last_us"] is not None), default=None)
    if first is None or last is None:
        return {"from": None, "to": None, "seconds": None}
    return {"from": _moment(first), "to": _moment(last), "seconds": (last - first) / 1e6}


def clocks_of(rows: Rows) -> list[ClockDifference]:
    """What is known of each pair of brokers: by how much one clock is ahead of the other's.

    Rows are those of `clock_differences`; of pairs with fewer than _LEAST_MOVES moves one way,
    nothing is told of that way. Bounds that contradict each other tell nothing.
    """
    quarter = {
        (row["from_broker"], row["to_broker"]): row["quarter_us"]
        for row in rows
        if row["moves"] >= _LEAST_MOVES
    }
    differences: list[ClockDifference] = []
    for first, second in sorted({(min(pair), max(pair)) for pair in quarter}):
        at_most = quarter.get((first, second))
        back = quarter.get((second, first))
        at_least = None if back is None else -back
        if at_least is not None and at_most is not None and at_least > at_most:
            at_least = at_most = None
        differences.append(
            {
                "broker": first,
                "other": second,
                "other_ahead_at_least_ms": None if at_least is None else at_least / 1000,
                "other_ahead_at_most_ms": None if at_most is None else at_most / 1000,
                "differ_at_least_ms": max(0, -(at_most or 0), at_least or 0) / 1000,
            }
        )
    return differences


def _partitions(rows: Iterable[Row]) -> int:
    return sum(row["partitions"] for row in rows)


def _not_leader(rows: Iterable[Row]) -> NotLeader:
    rows = list(rows)
    return {
        "total": _partitions(rows),
        "hinted": _partitions(row for row in rows if row["hinted"]),
        "appended_then_failed": _partitions(row for row in rows if row["appended"]),
    }


def _by_code(rows: Iterable[Row]) -> dict[str, int]:
    """Answers by error code, without 0; codes as text, as JSON's keys are."""
    counts: Counter[int] = Counter()
    for row in rows:
        if row["error"]:
            counts[row["error"]] += row["partitions"]
    return {str(code): counts[code] for code in sorted(counts)}


def _by_software(rows: Iterable[Row]) -> Mapping[tuple[str, str], Rows]:
    grouped: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        grouped[row["software_name"], row["software_version"]].append(row)
    return grouped


def _fleet(rows: Mapping[str, Rows]) -> list[FleetRow]:
    """A row for each software and version of clients, kipctl's own last."""
    apis = _by_software(row for row in rows["usage"] if row["origin"] == "client")
    errors = _by_software(row for row in rows["errors"] if row["origin"] == "client")
    behaved = _by_software(row for row in rows.get("behaviours", []) if row["client"] is None)
    metadata = _by_software(row for row in rows["metadata"] if not row["is_client"])
    reads = _by_software(rows["reads"])
    fleet: list[FleetRow] = []
    of_clients = (
        row for row in rows["clients"] if not row["is_client"] and row["origin"] == "client"
    )
    for row in sorted(of_clients, key=lambda r: (_is_own(r), *_software(r))):
        software = _software(row)
        versions: dict[str, dict[str, int]] = defaultdict(dict)
        for api in sorted(apis[software], key=lambda r: (r["api_key"], r["api_version"])):
            versions[api["api"]][str(api["api_version"])] = api["requests"]
        spoken = {
            key: [r["api_version"] for r in apis[software] if r["api_key"] == key]
            for key in (ApiKey.PRODUCE, ApiKey.FETCH)
        }
        refused = _not_leader(r for r in errors.get(software, ()) if r["is_leader_error"])
        [behaviour] = behaved.get(software, [None])
        seen = seen_of(behaviour, refused["total"], refused["hinted"])
        verdict = verdict_document(seen, software)
        is_met = verdict["behaviour"] != Behaviour.NOT_MET
        fleet.append(
            {
                "software": software.name,
                "version": software.version,
                "client_count": row["hosts"],
                "connections": row["connections"],
                "requests": row["requests"],
                "hint_behaviour": verdict["behaviour"]
                if is_met
                else expected(software, *spoken.values()),
                "verdict": verdict,
                "requests_by_api": dict(versions),
                "not_leader": refused,
                **counts_of(behaviour),
                "metadata": _metadata(metadata.get(software, [])),
                "rack_bytes": _racks(reads.get(software, [])),
            }
        )
    return fleet


def _refused_clients(rows: Rows) -> list[RefusedClient]:
    """A row for each client that met a leader error, those of the most errors first."""
    clients = sorted(
        (row for row in rows if row["client"] is not None),
        key=lambda row: (_is_own(row), -row["errors"], row["client"]),
    )
    return [
        {
            "client": row["client"],
            "software": row["software_name"],
            "version": row["software_version"],
            "leader_errors": row["errors"],
            "verdict": verdict_document(
                seen_of(row, row["errors"], row["hints"]),
                _software(row),
            ),
            **counts_of(row),
        }
        for row in clients
    ]


def _metadata(rows: Iterable[Row]) -> LoggedMetadata:
    rows = list(rows)
    rates = [row["per_minute"] for row in rows]
    total = sum(row["requests"] for row in rows)
    causes: Counter[str] = Counter()
    for row in rows:
        causes[row["cause"]] += row["requests"]
    return {
        "requests": total,
        "per_minute": None if None in rates else math.fsum(rates),
        "response_bytes": sum(row["bytes"] for row in rows),
        "by_cause": {name: causes[name] for name in _CAUSES if causes[name]},
        "answered_the_same": sum(row["answered_the_same"] for row in rows),
    }


def _metadata_clients(rows: Rows) -> list[MetadataAsker]:
    """A row for each client that asks, the most frequent first, kipctl's own last; where it does so
    without a cause that shows, and that is a known bug of its software, with that."""
    clients = [row for row in rows if row["is_client"]]
    askers: list[MetadataAsker] = [
        {
            "client": f"{row['client']}@{row['host']}",
            "software": row["software_name"],
            "version": row["software_version"],
            "is_kipctl": _is_own(row),
            "requests": row["requests"],
            "per_minute": row["per_minute"],
            "response_bytes": row["bytes"],
            "by_cause": {name: row[name] for name in _CAUSES if row[name]},
            "unexplained": row["unexplained"],
            "answered_the_same": row["answered_the_same"],
            "asked": row["asked"],
            "known_bug": (known_bug(_software(row)) or None if row["unexplained"] else None),
        }
        for row in clients
    ]

    def rank(asker: MetadataAsker) -> tuple[bool, float, int, str]:
        return asker["is_kipctl"], -(asker["per_minute"] or 0), -asker["requests"], asker["client"]

    return sorted(askers, key=rank)


def _racks(rows: Rows) -> RackBytes:
    """Bytes read by whether broker and client are in one rack."""
    known = [row for row in rows if row["broker_rack"] is not None]
    total = sum(row["bytes"] for row in known)
    cross = sum(row["bytes"] for row in known if row["client_rack"] != row["broker_rack"])
    return {
        "bytes_of_known_racks": total,
        "cross_rack_bytes": cross,
        "cross_rack_share": cross / total if total else None,
    }


def _reads(rows: Rows) -> list[RackReads]:
    """What was read by client rack and broker rack."""
    fetches: Counter[tuple[str, str | None]] = Counter()
    sizes: Counter[tuple[str, str | None]] = Counter()
    for row in rows:
        racks = (row["client_rack"], row["broker_rack"])
        fetches[racks] += row["fetches"]
        sizes[racks] += row["bytes"]
    return [
        {
            "client_rack": client_rack,
            "broker_rack": broker_rack,
            "fetch_count": fetches[client_rack, broker_rack],
            "bytes": sizes[client_rack, broker_rack],
        }
        for client_rack, broker_rack in sorted(
            fetches, key=lambda racks: (racks[0], racks[1] or "")
        )
    ]
