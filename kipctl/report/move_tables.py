"""The table of moved leaders: how long each made the client wait."""

from collections.abc import Iterator, Sequence

from kipctl.documents.common import Action
from kipctl.documents.runs import MetadataRpcs, Moves, Redirects
from kipctl.measure.moves import moves_sentence
from kipctl.report.tables import Column, Table

WAIT_MEANING = (
    "The client's own wait, from the first refusal to the send that succeeded: backoff and "
    "Metadata. The brokers' time (until the refusal came, until the new leader was ready, its "
    "answer) is in the latency, not here."
)

OWN_DISCOVERIES = ("kip951", "refresh", "baseline")
"""How kipctl's own client finds leaders: what runs of other clients say of theirs is their name."""


def sentence_of_moves(
    redirects: Redirects, actions: Sequence[Action], client: str = "client"
) -> str:
    """How many moved leaders the client of a run met, of those that were moved, and how long it
    waited for each. Of runs of older versions, which do not say, ""."""
    moves = redirects.get("moves")
    if not moves:
        return ""
    made = sum(action["partitions"] or 0 for action in actions if not action["error"])
    return moves_sentence(moves, client, made)


def moves_table(
    redirects: Redirects, rpcs: MetadataRpcs, actions: Sequence[Action], client: str = ""
) -> Table | None:
    """Of a run; None if no move was met. `client` says whose it is if there are several.

    Runs of older versions have none of it.
    """
    moves = redirects.get("moves")
    if not moves or not moves["met"]:
        return None
    return Table(
        sentence_of_moves(redirects, actions, client or "client").removesuffix("."),
        ("the client waited", "moved leaders", Column("share %", 1)),
        tuple(
            (wait_title(name), count, 100 * count / moves["met"])
            for name, count in moves["by_wait"].items()
        ),
        (WAIT_MEANING, *_notes(rpcs, moves)),
        "moves",
    )


def _notes(rpcs: MetadataRpcs, moves: Moves) -> Iterator[str]:
    if moves["not_ready"]:
        yield f"Refused by the new leader, which did not know yet: {moves['not_ready']:,}."
    if refreshes := rpcs["by_cause"].get("leader_change", 0):
        yield (
            f"Metadata requests because of them: {refreshes:,}, "
            f"{refreshes / moves['met']:.2f} for each."
        )
    behind = rpcs.get("queued_behind")
    if behind and behind["requests"]:
        yield (
            f"Metadata requests behind others on their connection: {behind['requests']:,}, for up "
            f"to {behind['wait_ms']['max']:,.1f} ms (head-of-line blocking)."
        )


def wait_title(name: str) -> str:
    """What a member of `by_wait` is called."""
    if name == "longer":
        return "longer"
    return f"under {name.removeprefix('below_').removesuffix('_ms').replace('1000', '1,000')} ms"
