"""Tables of a tap, from the document that `--output json` prints."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kipctl.counts import counted
from kipctl.measure.doubts import MIN_MOVES, few_moves_doubts
from kipctl.report.tables import Cell, Column, Paragraph, Table, Tone, table_of

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
_DATA = ("Produce", "Fetch", "ShareFetch")
_UNUSABLE = ("absent", "stale", "unknown_node", "draft")
"""Errors after which no hint says where to go."""
_AT_ONCE_MS = 10
"""A client that sends again within this follows the hint (docs/request-log.md)."""
CAUSES = ("start", "new_topic", "leader_change", "max_age", "idle_eviction", "error_retry")


def tap_answer(document: Document) -> Paragraph:
    """Whether clients follow hints: of each that met leader errors, the busiest first."""
    clients = document["clients"]
    if not clients:
        # A run that was repaired does not say where.
        address = document.get("clients_connect_to", "HOST:PORT of the tap")
        none = f"No client has connected. Give clients bootstrap.servers={address}"
        return Paragraph(none, tone=Tone.WARNING)
    met = sorted(
        (one for one in clients if one["leader_errors"]), key=lambda one: -one["requests"]["total"]
    )
    if not met:
        if not any(one["requests"]["by_api"].get(api) for one in clients for api in _DATA):
            return Paragraph(
                "No client has produced or fetched anything: whether clients follow hints cannot be"
                " said. Is their topic there? kipctl inspect leaders --topic T",
                tone=Tone.WARNING,
            )
        return Paragraph(
            "No leader moved while it was looked at: whether clients follow hints cannot be said."
            " Move some: kipctl reassign --rotate --topic T"
        )
    said = [_use_of_hints(one) for one in met[:_NAMED]]
    if len(met) > _NAMED:
        said.append(f"Clients that met leader errors too: {len(met) - _NAMED:,}.")
    said += few_moves_doubts(
        {one["client_id"] or "-": [one["moves"]["met"]] for one in met if one["moves"]["met"]}
    )
    return Paragraph(said[0], tuple(said[1:]))


def _use_of_hints(client: Document) -> str:
    """What the client makes of hints, in the words of `analyze request-log`, as far as is seen.

    It follows them if it went where they say and took less than 10 ms for most moved leaders. It
    waits if it took longer though most moved leaders had a hint, and it went there, or met many.
    Whether it waited for its backoff or for Metadata is not seen: both have ended by then.
    """
    hints, by_decision, moves = client["hints"], client["refused_by_hint"], client["moves"]
    counts = {name: by_decision.get(name, 0) for name in (*_DECISIONS, *_UNUSABLE)}
    p50_ms, met = moves["wait_ms"]["p50"], moves["met"]
    errors = counted(client["leader_errors"], "leader error")
    waits = f"p50 {p50_ms:,.1f} ms for {counted(met, 'moved leader')}"
    of_hints = ", ".join(
        f"{count:,} {words}" for name, words in _DECISIONS.items() if (count := counts[name])
    )
    went_there = counts["followed"] > counts["ignored"]
    had_hints = 2 * sum(counts[name] for name in _UNUSABLE) < met
    if hints["dropped"]:
        use = f"had to do without hints ({hints['dropped']:,} dropped by the tap)" + (
            f": it waited {waits}." if met else "."
        )
    elif not hints["sent"]:
        draft = f" that it could read ({hints['draft']:,} in the draft's form)"
        use = f"is sent no hints{draft if hints['draft'] else ''} with {errors}" + (
            f": waits {waits}." if met else "."
        )
    elif met and went_there and p50_ms < _AT_ONCE_MS:
        use = f"follows hints: waits {waits}."
    elif had_hints and p50_ms >= _AT_ONCE_MS and (went_there or met >= MIN_MOVES):
        use = (
            f"gets hints, but waits: {waits} (its backoff, Metadata, or batches ahead in its own"
            " queue)."
            " What to set: kipctl explain clients-ready-for-kip-951"
        )
    else:
        use = (
            f"gets hints with {errors}{f' ({of_hints})' if of_hints else ''}; whether it follows"
            f" them cannot be told.{f' It waits {waits}.' if met else ''} Run again with"
            " --drop-hints, on a machine with nothing else to do: a wait as long as this one means"
            " no gain."
        )
    software = _software(client)
    return f"{client['client_id'] or '-'}{f' ({software})' if software else ''} {use}"


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
    return table_of(
        "Clients through the tap" + conditions_in_words(document["conditions"]),
        document["clients"],
        {
            "client id": lambda client: client["client_id"] or "-",
            Column("software", detail=True): lambda client: _software(client) or "-",
            Column("connections", detail=True): lambda client: (
                client["connections"]["open"] or client["connections"]["made"]
            ),
            Column("requests/s", 1, detail=True): "requests.per_second",
            Column("requests", detail=True): "requests.total",
            Column("not decoded", detail=True): "requests.not_decoded",
            "leader errors": "leader_errors",
            Column("hints", detail=True): lambda client: _hints(client["hints"]),
            "followed": lambda client: client["refused_by_hint"].get("followed", 0),
            Column("ignored", detail=True): lambda client: client["refused_by_hint"].get(
                "ignored", 0
            ),
            Column("redirects", detail=True): "redirects",
            "moved leaders": "moves.met",
            Column("wait p50 ms", 1): partial(_wait, "p50"),
            Column("at most ms", 1, detail=True): partial(_wait, "max"),
            Column("Metadata", detail=True): "metadata_rpcs.total",
            "other errors": _other_errors,
        },
        tuple(_counting(document["clients"])),
        name="clients",
    )


def _counting(clients: Sequence[Document]) -> Iterator[str]:
    """What the columns count."""
    if clients:
        yield (
            "Leader errors and hints are counted by partition of an answer, followed and ignored by"
            " attempt of a batch or fetch, redirects by batch or fetch that got through after such"
            " errors, moved leaders by partition and leader epoch."
        )
    if any(client["connections"]["lost"] for client in clients):
        yield "A consumer that ends closes connections with a Fetch under way: that is no error."


def _wait(name: str, client: Document) -> Cell:
    ms: float = client["moves"]["wait_ms"][name]
    return ms if client["moves"]["met"] else None


def _software(client: Document) -> str:
    return " ".join(part for part in (client["software_name"], client["software_version"]) if part)


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
        counts["connection closed with requests under way"] = lost
    return ", ".join(f"{count:,} x {name}" for name, count in counts.items()) or "-"


def _metadata_table(document: Document) -> Table:
    def times(cause: str, client: Document) -> int:
        return int(client["metadata_rpcs"]["by_cause"].get(cause, 0))

    clients = document["clients"]
    return table_of(
        "Metadata requests by cause, as far as the wire shows it",
        clients,
        {
            "client id": lambda client: client["client_id"] or "-",
            **{
                cause.replace("_", " "): partial(times, cause)
                for cause in CAUSES
                if any(times(cause, client) for client in clients)
            },
        },
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
