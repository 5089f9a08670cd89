"""Tables of `kipctl inspect replica-selection`, from the documents that `--output json` prints."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kipctl.counts import counted, format_bytes
from kipctl.documents.replica_selection import (
    ClientRead,
    GroupReads,
    RackTraffic,
    ReadingClient,
    ReplicaChoice,
    ReplicaFlip,
    ReplicaFlipsDocument,
    ReplicaSelectionDocument,
    ReplicaWalk,
    ReplicaWalksDocument,
    Unreported,
)
from kipctl.errors import did_you_mean
from kipctl.report.tables import Cell, Column, Paragraph, Source, Table, Tone, table_of

_READ: Mapping[Column | str, str] = {
    "Topic": "topic",
    "Partition": "partition",
    "Reader in": "rack",
}


def selection_answer(document: ReplicaSelectionDocument) -> Paragraph:
    """What the groups that read cost, where it is known; how much of what is read stays in its
    rack, and the first reason why some does not."""
    rows = document["partitions"]
    if not rows:
        return Paragraph("No partition is shown, or no rack.")
    local = sum(row["local"] is True for row in rows)
    stays = f"{local} of {len(rows)} reads (each partition from each rack) stay in their rack."
    away = Counter(row["reason"] for row in rows if row["local"] is not True)
    if away:
        others = ", ".join(f"{why} ({n})" for why, n in away.most_common())
        stays = f"{stays} The others: {others}."
    of_groups = _saved_by_groups(document)
    supposed = () if of_groups else _saved(document)
    said: list[str] = [*of_groups, stays, *_mistyped(document), *supposed]
    return Paragraph(said[0], tuple(said[1:]), tone=Tone.WARNING if away else Tone.GOOD)


def _saved_by_groups(document: ReplicaSelectionDocument) -> tuple[str, ...]:
    """What crosses racks of what groups read; nothing where it is known of none."""
    is_priced = document["price_per_gb"] is not None
    told: set[str] = set()
    untold: set[str] = set()
    before, after = 0.0, 0.0
    for row in document["groups"]:
        now, then = row["now_cross_bytes_per_second"], row["closest_cross_bytes_per_second"]
        if is_priced:
            now, then = row["now_price_of_30_days"], row["closest_price_of_30_days"]
        if now is None or then is None:
            untold.add(row["group"])
        else:
            told.add(row["group"])
            before, after = before + now, after + then
    if not told:
        return ()

    def shown(amount: float) -> str:
        return f"{amount:,.2f}" if is_priced else f"{format_bytes(amount)}/s"

    verb, what = "read", "across racks"
    if is_priced:
        verb, what = "pay", "in 30 days for what crosses racks"
    said = (
        f"{counted(len(told), 'group', verb)} {shown(before)} {what};"
        f" from the closest replica it is {shown(after)}: {shown(before - after)} less, with"
        " client.rack set on consumers and replica.selector.class on brokers."
    )
    if untold:
        said += f" What {counted(len(untold), 'group', 'read')} is not known, or not all of it."
    return (said,)


def _saved(document: ReplicaSelectionDocument) -> tuple[str, ...]:
    """What would cross racks from leaders, and from the closest replica; nothing where it is not
    known, or where readers that name no rack of the cluster are."""
    racks = document["racks"]
    ways = [(row["from_leaders"], row["from_closest"]) for row in racks]
    shares = [(leaders["cross_percent"], closest["cross_percent"]) for leaders, closest in ways]
    known = [(now, then) for now, then in shares if now is not None and then is not None]
    if not known or len(known) < len(racks) or not all(row["is_known"] for row in racks):
        return ()
    # Readers of each rack read the same bytes: the shares of all together are the means.
    now, then = (sum(share) / len(known) for share in zip(*known, strict=True))
    said = [
        f"Consumers that name no rack read from leaders, {now:.0f} % of it across racks; from the"
        f" closest replica it is {then:.0f} %, with client.rack set on consumers and"
        " replica.selector.class on brokers."
    ]
    prices = [
        (leaders["price_of_30_days"], closest["price_of_30_days"]) for leaders, closest in ways
    ]
    priced = [(now, then) for now, then in prices if now is not None and then is not None]
    if len(priced) == len(racks) and not document["groups"]:
        before, after = (sum(price) for price in zip(*priced, strict=True))
        said.append(
            f"That is {before:,.2f} and {after:,.2f} in 30 days: {before - after:,.2f} less, if"
            " every partition is read once in each rack; no group is known that reads them."
        )
    return tuple(said)


def selection_tables(document: ReplicaSelectionDocument) -> tuple[Table, ...]:
    """The racks, why reads go where they go, each partition in each rack, and what a client really
    did, if one was asked."""
    tables = [_racks(document), _reasons(document["partitions"])]
    if document["groups"] or document["groups_not_shown"]:
        tables.insert(1, _groups(document))
    if document["reading_client"]:
        tables.append(_client(document["reading_client"]))
    return (*tables, _partitions(document))


class _Reason(NamedTuple):
    rack: str
    local: bool
    closest: bool
    why: str


def _reasons(rows: Sequence[ReplicaChoice]) -> Table:
    """Reads alike in one row: a cluster has partitions times racks of them."""
    alike: dict[_Reason, list[str]] = {}
    for row in rows:
        key = _Reason(row["rack"], row["local"], row["closest"], row["reason"])
        alike.setdefault(key, []).append(f"{row['topic']}-{row['partition']}")
    in_order = sorted(alike.items(), key=_by_rack)
    return Table(
        "Why",
        ("Reader in", "Local", "Closest", "Why", "Partitions", "Such as"),
        tuple((*key, len(partitions), partitions[0]) for key, partitions in in_order),
    )


def _by_rack(item: tuple[_Reason, list[str]]) -> tuple[str, bool, int]:
    reason, partitions = item
    return reason.rack, reason.local, -len(partitions)


def _partitions(document: ReplicaSelectionDocument) -> Table:
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
        "partitions",
    )


def _why(row: ReplicaChoice) -> str:
    return f"{row['reason']}: {row['detail']}" if row["detail"] else row["reason"]


def _racks(document: ReplicaSelectionDocument) -> Table:
    measures, is_priced = document["rate_over_seconds"], document["price_per_gb"] is not None
    columns: dict[Column | str, Source[RackTraffic]] = {
        "Reader in": "rack",
        Column("Partitions", detail=True): "partitions",
        Column("Local", detail=True): "local_partitions",
        Column("Local %", detail=is_priced): "local_percent",
        Column("Closest", detail=True): "closest_partitions",
        Column("Bytes held", right=True, detail=True): lambda row: _bytes(row, row["held_bytes"]),
        Column("From leaders %", 1, True): lambda row: _bytes(
            row, row["from_leaders"]["cross_percent"]
        ),
        Column("From closest %", 1, True): lambda row: _bytes(
            row, row["from_closest"]["cross_percent"]
        ),
    }
    reported = "of the bytes that the leaders hold"
    if measures is not None:
        columns |= {
            Column("Bytes/s", 0, True): lambda row: _bytes(row, row["bytes_per_second"]),
            Column("From leaders bytes/s", 0, True, detail=is_priced): lambda row: _bytes(
                row, row["from_leaders"]["cross_bytes_per_second"]
            ),
            Column("From closest bytes/s", 0, True, detail=is_priced): lambda row: _bytes(
                row, row["from_closest"]["cross_bytes_per_second"]
            ),
        }
        reported = f"over {measures:g} s, as written"
    if is_priced:
        columns |= {
            Column("Price now", 2, True): lambda row: _bytes(
                row, row["from_leaders"]["price_of_30_days"]
            ),
            Column("Price closest", 2, True): lambda row: _bytes(
                row, row["from_closest"]["price_of_30_days"]
            ),
        }
    return table_of(
        "Racks",
        document["racks"],
        columns,
        (
            f"Bytes and prices (of 30 days) are of what crosses racks, {reported}, with every"
            " partition read once in each rack: from leaders, as consumers do that name no rack"
            " (client.rack), and from the closest replica, as those do that name theirs where"
            " brokers have a replica.selector.class.",
            *_unreported(document["unreported"]),
        ),
    )


def _groups(document: ReplicaSelectionDocument) -> Table:
    columns: dict[Column | str, Source[GroupReads]] = {
        "Group": "group",
        "Names rack": _named_rack,
        Column("Client ids", detail=True): lambda row: ", ".join(row["client_ids"]),
        Column("Members", detail=True): "members",
        "Partitions": "partitions",
    }
    if document["rate_over_seconds"] is not None:
        columns |= {
            Column("Now bytes/s", 0, True): lambda row: _read_now(
                row, row["now_cross_bytes_per_second"]
            ),
            Column("Closest bytes/s", 0, True): "closest_cross_bytes_per_second",
        }
    if document["price_per_gb"] is not None:
        columns |= {
            Column("Price now", 2, True): lambda row: _read_now(row, row["now_price_of_30_days"]),
            Column("Price closest", 2, True): "closest_price_of_30_days",
        }
    notes = [
        "Across racks, as the group reads now, and with client.rack set right and"
        " replica.selector.class on brokers. Who names no rack of the cluster may be in any of"
        " them: the mean is taken."
    ]
    if any(not row["says_rack"] for row in document["groups"]):
        notes.append(
            "Clients from before KIP-881 do not tell their rack: it may be set, so what they read"
            " across racks now is not told."
        )
    if missing := document["groups_not_shown"]:
        first, more = missing[0], len(missing) - 1
        group = "" if first["group"] is None else f"group {first['group']} of "
        others = f" And {more:,} more." if more else ""
        notes.append(
            f"Not all groups are shown: {group}broker {first['broker']}:"
            f" {first['why'].removesuffix('.')}.{others}"
        )
    return table_of("Groups that read", document["groups"], columns, tuple(notes), name="groups")


def _named_rack(row: GroupReads) -> str:
    if row["client_rack"] is None:
        return "none" if row["says_rack"] else "not told"
    return row["client_rack"] if row["is_known"] else f"{row['client_rack']} (unknown)"


def _read_now(row: GroupReads, amount: float | None) -> Cell:
    """What a group reads now; one whose clients tell no rack may read in its own."""
    return amount if row["says_rack"] else "not told"


def _mistyped(document: ReplicaSelectionDocument) -> tuple[str, ...]:
    """Who names a rack that the cluster does not have, and what that costs; the dearest first."""
    racks = [row["rack"] for row in document["racks"] if row["is_known"]]
    said = []
    for row in document["groups"]:
        named = row["client_rack"]
        if named is None or row["is_known"]:
            continue
        who = f"group {row['group']} ({', '.join(row['client_ids'])})"
        now, then = row["now_price_of_30_days"], row["closest_price_of_30_days"]
        costs = "" if now is None or then is None else f" That costs {now - then:,.2f} in 30 days."
        near = did_you_mean(named, racks)
        said.append(
            f"The cluster has no rack {named!r}, which {who} names: it reads from leaders."
            f"{near}{costs}"
        )
    return tuple(said)


def _bytes(row: RackTraffic, amount: float | None) -> Cell:
    """A sum of bytes, or what follows from one; one that is not known is no zero."""
    return "not known" if amount is None and row["unreported_partitions"] else amount


def _unreported(partitions: Sequence[Unreported]) -> tuple[str, ...]:
    if not partitions:
        return ()
    first = partitions[0]
    return (
        f"Partitions whose bytes, or who serves them, are not known: {len(partitions)};"
        f" {first['topic']}-{first['partition']}: {first['why'].removesuffix('.')}.",
    )


def _client(client: ReadingClient) -> Table:
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
        "client_reads",
    )


def _client_notes(rows: Sequence[ClientRead]) -> tuple[str, ...]:
    notes = []
    if any(row["broker"] is None for row in rows):
        notes.append("A partition without records is read from nowhere.")
    if any(row["records"] and not row["bytes"] for row in rows):
        notes.append(
            "Records of 0 bytes are transaction markers, or have neither key nor value; they come"
            " from that broker too."
        )
    return tuple(notes)


def walk_answers(document: ReplicaWalksDocument) -> tuple[Paragraph, ...]:
    """What the leader really said to a reader of each rack."""
    where = f"{document['topic']}-{document['partition']}"
    return tuple(_walk_answer(where, walk) for walk in document["walks"])


def _walk_answer(where: str, walk: ReplicaWalk) -> Paragraph:
    reader = f"a reader in {walk['rack']}"
    if walk["reads_from"] is None:
        return Paragraph(f"The leader of {where} named nobody to {reader}: {_why(walk)}.")
    sent = f"The leader of {where} sends {reader} to broker {walk['reads_from']}"
    if walk["as_expected"] is False:
        text = f"{sent}, which is not what the rules say: {_why(walk)}."
        return Paragraph(text, tone=Tone.WARNING)
    return Paragraph(f"{sent}: {_why(walk)}.")


def walk_tables(document: ReplicaWalksDocument) -> tuple[Table, ...]:
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
            name="rules",
        )
        for walk in document["walks"]
    )


def flips_table(document: ReplicaFlipsDocument) -> Table:
    """What changed while it was watched."""
    return table_of(
        "Flips",
        document["flips"],
        {"Time": "time", **_READ, "From": "from_broker", "To": "to_broker", "Why": "why"},
    )


def flip_line(flip: ReplicaFlip) -> str:
    """One change in one line."""
    was, now = (
        "nowhere" if broker is None else broker
        for broker in (flip["from_broker"], flip["to_broker"])
    )
    return (
        f"{flip['time']}  {flip['topic']}-{flip['partition']}  {flip['rack']}: "
        f"{was} -> {now}  {flip['why']}"
    )
