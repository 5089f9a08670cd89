"""The sentence that a report begins with, and what spoils its runs."""

from collections.abc import Iterator

from kipctl.counts import counted
from kipctl.documents.pages import Row, Rows, RunPictures
from kipctl.report.html.words import first_few, in_ms
from kipctl.report.tap_tables import verdicts

_MOST_ARMS = 4
_CLIENTS = {"produce": "producer", "fetch": "consumer"}


def answer(document: RunPictures) -> str:
    """What a tap says of each client, or what moved, what a client waited for each moved leader,
    whether hints were used; what was lost: from the tables by arm."""
    arms = document["arms"]
    parts = [said for run in document["runs"] for said in verdicts(run["clients"])]
    parts = parts or [_moved(document), _waited(arms["moves"]), _hints(arms["redirects"])]
    parts.append(_settled(arms["records"]))
    return " ".join(part for part in parts if part)


def doubts(document: RunPictures) -> list[str]:
    """What spoils the runs, each in a sentence that begins with the run if there are several."""
    return list(_doubts(document))


def _doubts(document: RunPictures) -> Iterator[str]:
    runs = document["runs"]
    for run in runs:
        of = f"{run['run']}: " if len(runs) > 1 else ""
        if run["failed"]:
            yield f"{of}The run failed, and is shown as it is: {run['failed']}"
        elif run["stopped"]:
            yield f"{of}The run was interrupted, and is shown as it is."
        if run["end_of"]:
            yield f"{of}It is the end of a longer run: {run['end_of']}."
        for doubt in run["doubts"]:
            yield f"{of}{doubt}"


def _moved(document: RunPictures) -> str:
    done: Rows = document["analysis"]["actions"]
    failed = sum(1 for action in done if action["error"])
    kinds: dict[str, int] = {}
    for action in done:
        kinds[action["action"]] = kinds.get(action["action"], 0) + 1
    if not kinds:
        return "Nothing was done to the cluster that is recorded."
    named = first_few((f"{times:,} x {kind}" for kind, times in kinds.items()), 4)
    partitions = sum(action["partitions"] or 0 for action in done)
    runs = len(document["runs"])
    said = f"{named}, of {counted(partitions, 'partition')} in all"
    said += f", over {runs:,} runs" if runs > 1 else ""
    return said + (f" ({counted(failed, 'action')} failed)." if failed else ".")


def _waited(moves: Rows) -> str:
    if not moves:
        return "No client met a moved leader."
    if len(moves) == 1:
        [only] = moves
        return (
            f"A client met {counted(only['moves'], 'moved leader')} and waited for each of them "
            f"{in_ms(only['wait_ms']['p50'])} (p50), {in_ms(only['wait_ms']['p99'])} (p99),"
            f" at most {in_ms(only['wait_ms']['max'])}."
        )
    named = (
        f"{client(row, moves)} {in_ms(row['wait_ms']['p50'])} and "
        f"{in_ms(row['wait_ms']['p99'])} ({row['moves']:,} met)"
        for row in moves
    )
    return f"Wait for each moved leader, p50 and p99: {first_few(named, _MOST_ARMS, '; ')}."


def client(row: Row, among: Rows) -> str:
    """Whose row it is: its arm, its client (producer or consumer), or both, as rows differ."""
    kind = _CLIENTS.get(row.get("api", ""), "client")
    if len({of.get("api") for of in among}) == 1:
        return str(row["arm"])
    return kind if len({of["arm"] for of in among}) == 1 else f"{row['arm']}, {kind}"


def _hints(redirects: Rows) -> str:
    """Of each arm, or client, how many of its refusals named a leader, and what it did then."""
    said = [(client(row, redirects), _used(row)) for row in redirects if row["errors"]]
    if len(said) == 1:
        return f"Hints: {said[0][1]}."
    shown = first_few((f"{whose} {used}" for whose, used in said), _MOST_ARMS, "; ")
    return f"Hints: {shown}." if said else ""


def _used(row: Row) -> str:
    refusals = counted(row["errors"], "refusal")
    if not row["hints_present"]:
        return f"none in {refusals}"
    known = f", known already {row['hints']['known']:,} times" if row["hints"]["known"] else ""
    present, followed = row["hints_present"], row["hints"]["followed"]
    return f"in {present:,} of {refusals}, followed {followed:,} times{known}"


def _settled(records: Rows) -> str:
    if not records:
        return ""
    acknowledged, failed = (sum(row[of] for row in records) for of in ("acknowledged", "failed"))
    if failed:
        return f"{counted(failed, 'record')} failed, {acknowledged:,} were acknowledged."
    return f"All {counted(acknowledged, 'record')} were acknowledged, none failed."
