"""Tables of a tap, from the document that `--output json` prints."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kipctl.counts import counted
from kipctl.next_step import Command
from kipctl.report.tables import Cell, Column, Paragraph, Table, Tone, table_of

Document = Mapping[str, Any]

_DATA = ("Produce", "Fetch", "ShareFetch", "ShareAcknowledge")
_CAUSES = (
    *("start", "new_topic", "leader_change", "max_age", "idle_eviction", "error_retry"),
    "unexplained",
)
_MANY_UNEXPLAINED = 10
"""Metadata requests: fewer are not worth a sentence."""


def tap_answer(document: Document) -> Paragraph:
    """Whether clients follow hints: each that met leader errors, the busiest first, then others."""
    clients = document["clients"]
    if not clients:
        # A run that was repaired does not say where.
        address = document.get("clients_connect_to", "HOST:PORT of the tap")
        none = f"No client has connected. Give clients bootstrap.servers={address}"
        return Paragraph(none, tone=Tone.WARNING)
    met = [one for one in clients if one["leader_errors"]]
    doubts = document.get("doubts", [])
    if not met and not any(map(_has_data, clients)):
        return Paragraph(
            "No client has produced or fetched anything: whether clients follow hints "
            "cannot be said. Is their topic there? " + Command("inspect leaders --topic TOPIC"),
            tone=Tone.WARNING,
        )
    said = list(verdicts(document))
    if not met:
        said.insert(
            0,
            "No leader moved while it was looked at: whether clients follow hints cannot "
            "be said. Move some: " + Command("reassign --rotate --topic TOPIC"),
        )
    return Paragraph(said[0], (*said[1:], *doubts))


def verdicts(document: Document) -> Iterator[str]:
    """Of each client that produced or fetched, in the order of `tap_answer`."""
    clients = sorted(
        document["clients"], key=lambda one: (not one["leader_errors"], -one["requests"]["total"])
    )
    for one in clients:
        if one["leader_errors"] or _has_data(one):
            yield f"{_name(one, clients)} {_sentences(one)}"


def _has_data(client: Document) -> bool:
    return any(client["requests"]["by_api"].get(api) for api in _DATA)


def _name(client: Document, clients: Sequence[Document]) -> str:
    """With its host, if others have its id."""
    name, software = client["client_id"] or "-", _software(client)
    namesakes = sum(one["client_id"] == client["client_id"] for one in clients) > 1
    at = f" at {client['host']}" if namesakes and client.get("host") else ""
    return f"{name}{at}{f' ({software})' if software else ''}"


def _sentences(client: Document) -> str:
    """What the client makes of hints, what it cost, and what to do."""
    verdict = client.get("verdict")
    if verdict is None:
        errors = counted(client["leader_errors"], "leader error")
        return (
            f"met {errors}; what it makes of hints was not judged by the kipctl that recorded it."
        )
    said = [verdict["sentence"]]
    if took := client["records_took_ms"]:
        times = (f"{took[name]:,.1f} ms" for name in ("p50", "p99", "max"))
        said.append("Its records took p50 {}, p99 {}, at most {}.".format(*times))
    if times := client["requests"]["acks_0"]:
        said.append(f"{counted(times, 'request')} had acks=0: no answer can refuse them.")
    if lost := client["moves"]["given_up"]:
        said.append(f"What it was refused it did not send again in {counted(lost, 'case')}.")
    unexplained = client["metadata_rpcs"]["by_cause"].get("unexplained", 0)
    if unexplained >= _MANY_UNEXPLAINED:
        same = client["metadata_rpcs"]["answered_the_same"]
        said.append(
            f"It asked for Metadata {unexplained:,} times without a cause that is seen,"
            f" {same:,} times for what it had just been told."
        )
    return " ".join(filter(None, (*said, verdict["advice"])))


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
            Column("records p50 ms", 1, detail=True): partial(_took, "p50"),
            Column("records p99 ms", 1, detail=True): partial(_took, "p99"),
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
            " errors, moved leaders by partition and leader epoch; a wait is from the first refusal"
            " of a partition until the client asked a broker that led it."
        )
    if any(client["connections"]["lost"] for client in clients):
        yield "A consumer that ends closes connections with a Fetch under way: that is no error."


def _wait(name: str, client: Document) -> Cell:
    ms: float = client["moves"]["wait_ms"][name]
    return ms if client["moves"]["met"] else None


def _took(name: str, client: Document) -> Cell:
    took = client.get("records_took_ms")
    return took[name] if took else None


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
                for cause in _CAUSES
                if any(times(cause, client) for client in clients)
            },
            **(
                {"just told": lambda one: one["metadata_rpcs"].get("answered_the_same", 0)}
                if any(times("unexplained", client) for client in clients)
                else {}
            ),
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
