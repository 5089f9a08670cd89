"""Tables of `kipctl inspect replica-selection`, from the documents that `--output json` prints."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kipctl.report.tables import Column, Paragraph, Source, Table, Tone, table_of

Document = Mapping[str, Any]
_READ: Mapping[Column | str, Source] = {
    "Topic": "topic",
    "Partition": "partition",
    "Reader in": "rack",
}


def selection_answer(document: Document) -> Paragraph:
    """How much of what is read stays in its rack, and the first reason why some does not."""
    rows = document["partitions"]
    if not rows:
        return Paragraph("No partition is shown, or no rack.")
    local = sum(row["local"] is True for row in rows)
    first = f"{local} of {len(rows)} reads (each partition from each rack) stay in their rack."
    away = Counter(row["reason"] for row in rows if row["local"] is not True)
    if not away:
        return Paragraph(first, tone=Tone.GOOD)
    return Paragraph(
        f"{first} The others: " + ", ".join(f"{why} ({n})" for why, n in away.most_common()) + ".",
        tone=Tone.WARNING,
    )


def selection_tables(document: Document) -> tuple[Table, ...]:
    """The racks, why reads go where they go, each partition in each rack, and what a client really
    did, if one was asked."""
    tables = [_racks(document), _reasons(document["partitions"])]
    if document["client"]:
        tables.append(_client(document["client"]))
    return (*tables, _partitions(document))


def _reasons(rows: Sequence[Document]) -> Table:
    """Reads alike in one row: a cluster has partitions times racks of them."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        key = (row["rack"], row["local"], row["closest"], row["reason"])
        alike.setdefault(key, []).append(f"{row['topic']}-{row['partition']}")
    return Table(
        "Why",
        ("Reader in", "Local", "Closest", "Why", "Partitions", "Such as"),
        tuple((*key, len(found), found[0]) for key, found in sorted(alike.items(), key=_by_rack)),
    )


def _by_rack(item: tuple[tuple[Any, ...], list[str]]) -> tuple[str, bool, int]:
    (rack, local, _, _), found = item
    return rack or "", local is True, -len(found)


def _partitions(document: Document) -> Table:
    rows = document["partitions"]
    differ = [row for row in rows if row["as_expected"] is False]
    return table_of(
        "Where readers of each rack are sent",
        sorted(rows, key=lambda row: row["local"] is True),
        {
            **_READ,
            "Leader": "leader",
            "Leader in": "leader_rack",
            "Reads from": "reads_from",
            "That is in": "reads_from_rack",
            "Local": "local",
            "Closest": "closest",
            "Why": _why,
        },
        tuple(
            f"{row['topic']}-{row['partition']} for {row['rack']}: the broker named"
            f" {row['reads_from']}, the rules say {' or '.join(map(str, row['expected']))}."
            for row in differ
        ),
    )


def _why(row: Document) -> str:
    return f"{row['reason']}: {row['detail']}" if row["detail"] else str(row["reason"])


def _racks(document: Document) -> Table:
    rows = document["racks"]
    columns: list[Column | str] = [
        "Reader in",
        "Partitions",
        "Local",
        "Local %",
        "Closest",
        Column("Bytes held", right=True),
        Column("Across racks %", right=True),
    ]
    keys = ["rack", "partitions", "local", "local_percent", "closest"]
    of_bytes = ["held_bytes", "cross_percent"]
    if document["rate_over_s"] is not None:
        columns += [Column("Bytes/s", 0, True), Column("Across racks bytes/s", 0, True)]
        of_bytes += ["bytes_per_s", "cross_bytes_per_s"]
        reported = f"over {document['rate_over_s']:g} s, as written"
    else:
        reported = "of the bytes that the leaders hold"
    if document["price_per_gb"] is not None:
        columns.append(Column("Price of 30 days", 2, True))
        of_bytes.append("price_of_30_days")
    return Table(
        "Racks",
        tuple(columns),
        tuple((*(row[key] for key in keys), *_bytes(row, of_bytes)) for row in rows),
        (
            f"Across racks: {reported}, with every partition read once in each rack.",
            *_unreported(document["unreported"]),
        ),
    )


def _bytes(row: Document, keys: Sequence[str]) -> tuple[Any, ...]:
    """Sums of bytes and what follows from them; one that is not known is no zero."""
    missing = "not known" if row["unreported_partitions"] else None
    return tuple(missing if row[key] is None else row[key] for key in keys)


def _unreported(partitions: Sequence[Document]) -> tuple[str, ...]:
    if not partitions:
        return ()
    first = partitions[0]
    return (
        f"Partitions whose bytes, or who serves them, are not known: {len(partitions)};"
        f" {first['topic']}-{first['partition']}: {first['why'].removesuffix('.')}.",
    )


def _client(client: Document) -> Table:
    rows = client["reads"]
    return table_of(
        f"Where {client['name']} {client['version']} reads",
        rows,
        {
            **_READ,
            "Reads from": "broker",
            "That is in": "broker_rack",
            "Records": "records",
            "Bytes": "bytes",
            "As the leader said": "agrees",
        },
        _client_notes(rows),
    )


def _client_notes(rows: Sequence[Document]) -> tuple[str, ...]:
    notes = []
    if any(row["broker"] is None for row in rows):
        notes.append("A partition without records is read from nowhere.")
    if any(row["records"] and not row["bytes"] for row in rows):
        notes.append(
            "Records of 0 bytes are transaction markers, or have neither key nor value; they come"
            " from that broker too."
        )
    return tuple(notes)


def walk_answers(document: Document) -> tuple[Paragraph, ...]:
    """What the leader really said to a reader of each rack."""
    where = f"{document['topic']}-{document['partition']}"
    return tuple(_walk_answer(where, walk) for walk in document["walks"])


def _walk_answer(where: str, walk: Document) -> Paragraph:
    reader = f"a reader in {walk['rack']}"
    if walk["reads_from"] is None:
        return Paragraph(f"The leader of {where} named nobody to {reader}: {_why(walk)}.")
    sent = f"The leader of {where} sends {reader} to broker {walk['reads_from']}"
    if walk["as_expected"] is False:
        text = f"{sent}, which is not what the rules say: {_why(walk)}."
        return Paragraph(text, tone=Tone.WARNING)
    return Paragraph(f"{sent}: {_why(walk)}.")


def walk_tables(document: Document) -> tuple[Table, ...]:
    """One table for each rack: rule by rule."""
    where = f"{document['topic']}-{document['partition']}"
    return tuple(
        Table(
            f"{where}, for a reader in {walk['rack']}",
            ("Rule", "Facts", "Brokers left"),
            tuple(
                (step["rule"], step["facts"], ", ".join(map(str, step["left"])) or "cannot be told")
                for step in walk["steps"]
            ),
        )
        for walk in document["walks"]
    )


def flips_table(document: Document) -> Table:
    """What changed while it was watched."""
    return table_of(
        "Flips",
        document["flips"],
        {"Time": "time", **_READ, "From": "from", "To": "to", "Why": "why"},
    )


def flip_line(flip: Document) -> str:
    """One change in one line."""
    was, now = ("nowhere" if flip[key] is None else flip[key] for key in ("from", "to"))
    return (
        f"{flip['time']}  {flip['topic']}-{flip['partition']}  {flip['rack']}: "
        f"{was} -> {now}  {flip['why']}"
    )
