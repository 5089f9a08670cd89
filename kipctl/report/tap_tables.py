"""Tables of a tap, from the document that `--output json` prints."""

from collections.abc import Mapping
from typing import Any

from kipctl.report.tables import Cell, Column, Paragraph, Table, Tone

Document = Mapping[str, Any]

_NAMED = 3
_DECISIONS = {
    "followed": "followed",
    "known": "known already",
    "stale": "older than what the client knew",
    "unknown_node": "of an unknown broker",
    "ignored": "ignored",
}
"""What became of a hint (`trace.codes.Decision`), in words."""
CAUSES = ("start", "new_topic", "leader_change", "max_age", "idle_eviction", "error_retry")


def tap_answer(document: Document) -> Paragraph:
    """Who came through, and what leaders that moved did to them."""
    clients = document["clients"]
    if not clients:
        return Paragraph("No client has connected.", tone=Tone.WARNING)
    errors, redirects = (
        sum(one[name] for one in clients) for name in ("leader_errors", "redirects")
    )
    hints = sum(one["hints"]["sent"] for one in clients)
    by_decision = {
        words: sum(one["refused_by_hint"].get(name, 0) for one in clients)
        for name, words in _DECISIONS.items()
    }
    said = ", ".join(f"{count:,} {words}" for words, count in by_decision.items() if count)
    names = ", ".join(dict.fromkeys(one["client_id"] or "-" for one in clients[:_NAMED]))
    more = f" and {len(clients) - _NAMED:,} more" if len(clients) > _NAMED else ""
    return Paragraph(
        f"{names}{more} met {errors:,} leader errors in {redirects:,} redirects; {hints:,} hints"
        f" named the new leader{f' ({said})' if said else ''}."
    )


def tap_tables(document: Document) -> tuple[Table, ...]:
    """Clients, their Metadata requests, and the addresses that stand for brokers."""
    tables = [clients_table(document)]
    if any(client["metadata_rpcs"]["total"] for client in document["clients"]):
        tables.append(_metadata_table(document))
    if document["listeners"]:
        tables.append(
            Table(
                "Listeners",
                ("broker", "the tap's port"),
                tuple((one["broker"], str(one["port"])) for one in document["listeners"]),
                name="listeners",
            )
        )
    if dropped := document["dropped"]:
        rows = tuple((line,) for line in dropped)
        tables.append(Table("Dropped connections", ("what",), rows, name="dropped"))
    return tuple(tables)


def clients_table(document: Document) -> Table:
    """One row for each client."""
    return Table(
        "Clients through the tap" + conditions_in_words(document["conditions"]),
        (
            "client id",
            "software",
            Column("connections", detail=True),
            Column("requests/s", 1, detail=True),
            Column("requests", detail=True),
            Column("not decoded", detail=True),
            "leader errors",
            "hints",
            "followed",
            "ignored",
            Column("redirects", detail=True),
            "moved leaders",
            Column("wait p50 ms", 1),
            Column("at most ms", 1),
            Column("Metadata", detail=True),
            "other errors",
        ),
        tuple(_row(client) for client in document["clients"]),
        name="clients",
    )


def _row(client: Document) -> tuple[Cell, ...]:
    software = " ".join(
        part for part in (client["software_name"], client["software_version"]) if part
    )
    requests, connections, moves = client["requests"], client["connections"], client["moves"]
    return (
        client["client_id"] or "-",
        software or "-",
        connections["open"] or connections["made"],
        requests["per_second"],
        requests["total"],
        requests["not_decoded"],
        client["leader_errors"],
        _hints(client["hints"]),
        client["refused_by_hint"].get("followed", 0),
        client["refused_by_hint"].get("ignored", 0),
        client["redirects"],
        moves["met"],
        moves["wait_ms"]["p50"] if moves["met"] else None,
        moves["wait_ms"]["max"] if moves["met"] else None,
        client["metadata_rpcs"]["total"],
        _other_errors(client),
    )


def _hints(hints: Document) -> str:
    said = [str(hints["sent"])]
    if hints["draft"]:
        said.append(f"{hints['draft']} draft")
    if hints["dropped"]:
        said.append(f"{hints['dropped']} dropped")
    return ", ".join(said)


def _other_errors(client: Document) -> str:
    """Errors that say nothing of leaders, produce and fetch together."""
    counts: dict[str, int] = {}
    for kind in ("produce_errors", "fetch_errors"):
        for name, count in client[kind].items():
            if name not in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH"):
                counts[name] = counts.get(name, 0) + count
    if lost := client["connections"]["lost"]:
        counts["connections lost"] = lost
    return ", ".join(f"{count:,} x {name}" for name, count in counts.items()) or "-"


def _metadata_table(document: Document) -> Table:
    shown = [
        cause
        for cause in CAUSES
        if any(client["metadata_rpcs"]["by_cause"].get(cause) for client in document["clients"])
    ]
    return Table(
        "Metadata requests by cause, as far as the wire shows it",
        ("client id", *(cause.replace("_", " ") for cause in shown)),
        tuple(
            (
                client["client_id"] or "-",
                *(client["metadata_rpcs"]["by_cause"].get(cause, 0) for cause in shown),
            )
            for client in document["clients"]
        ),
        name="metadata",
    )


def conditions_in_words(conditions: Document) -> str:
    """What the tap changes on the way, in brackets; empty where it only looks on."""
    said = []
    for name, highest in conditions.get("cap", {}).items():
        said.append(f"{name} at most {highest}")
    for name, delay_ms in conditions.get("delay_ms", {}).items():
        said.append(f"{name} held {delay_ms:g} ms")
    if conditions.get("drop_hints"):
        said.append("hints dropped")
    if stale_ms := conditions.get("stale_metadata_ms"):
        said.append(f"Metadata stale for {stale_ms:g} ms")
    if resets := conditions.get("resets_per_minute"):
        said.append(f"{resets:g} resets/min")
    return f" ({', '.join(said)})" if said else ""
