"""Tables of `inspect hints`: whether each broker names the new leader, and by which request."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kipctl.counts import counted
from kipctl.next_step import Command
from kipctl.protocol.address import Address
from kipctl.report.leader_tables import listing
from kipctl.report.tables import Cell, Column, Paragraph, Report, Table, Tone
from kipctl.transport.address_map import suggested_map

if TYPE_CHECKING:
    from kipctl.cluster.inspect.leader_hint_check import BrokerHints


_PAST_PROXY = (
    "Hints lead past a proxy: each has the leader and the epoch of Metadata, at an address that"
    " Metadata does not show. It rewrites Metadata alone, and clients that follow hints go round"
    " it, or to where they cannot connect."
)


def hints_report(
    checked: "tuple[BrokerHints, ...]", has_partitions: bool, server: Address | None = None
) -> Report:
    """`server` is the one that was asked first."""
    from kipctl.cluster.inspect.leader_hint_check import Verdict, passes_proxy

    _, brokers = listing(
        "Hints",
        {
            "broker": "Broker",
            "rack": "Rack",
            "produce_versions": "Produce",
            "fetch_versions": "Fetch",
            "metadata_versions": "Metadata",
            "asked_partition": "Asked for",
            "hint_leader": "Hinted leader",
            "hint_epoch": "Epoch",
            "hint_endpoint": "Endpoint",
            "verdict": "Verdict",
            "detail": "Detail",
            "fetch_asked_partition": "Fetch of",
            "fetch_error": "Answer",
            "fetch_hint_leader": "Hinted",
            "fetch_verdict": "Verdict of Fetch",
            "fetch_detail": "Its detail",
        },
        (
            (
                hints.broker.id,
                hints.broker.rack,
                _range(hints.produce),
                _range(hints.fetch),
                _range(hints.metadata),
                str(hints.asked) if hints.asked else None,
                hints.hint.leader_id if hints.hint else None,
                hints.hint.leader_epoch if hints.hint else None,
                hints.hint.address if hints.hint else None,
                str(hints.verdict),
                hints.detail or None,
                str(hints.fetched.asked) if hints.fetched.asked else None,
                hints.fetched.error,
                hints.fetched.hint.leader_id if hints.fetched.hint else None,
                str(hints.fetched.verdict),
                hints.fetched.detail or None,
            )
            for hints in checked
        ),
    )
    drafts = sum(hints.verdict is Verdict.DRAFT for hints in checked)
    hinting = sum(hints.hint is not None for hints in checked) - drafts
    not_asked = sum(hints.verdict is Verdict.NOT_ASKED for hints in checked)
    no_right = sum(hints.verdict is Verdict.NO_RIGHT for hints in checked)
    in_fetch = sum(hints.fetched.hint is not None for hints in checked)
    agreeing = sum(hints.agrees for hints in checked)
    is_passed = passes_proxy(checked)
    return Report(
        "inspect hints",
        {
            "brokers": brokers,
            "hinting": hinting,
            "agreeing": agreeing,
            "past_proxy": is_passed,
            "drafts": drafts,
            "not_asked": not_asked,
            "hinting_in_fetch": in_fetch,
        },
        (_hints_table(checked),),
        closing=tuple(_maps(checked, server)),
        opening=(
            Paragraph(
                _no_right_to_write(in_fetch, len(checked) - not_asked)
                if no_right and not_asked + no_right == len(checked)
                else _hints_sentence(
                    hinting, agreeing, drafts, not_asked, len(checked), has_partitions
                ),
                (_PAST_PROXY,) if is_passed else (),
                Tone.BAD if is_passed else Tone.NONE,
            ),
        ),
    )


def _maps(checked: "tuple[BrokerHints, ...]", server: Address | None) -> Iterator[str]:
    """What to do where no broker is reached at its own address, while the server answers."""
    from kipctl.cluster.inspect.leader_hint_check import Verdict

    at = [Address(hints.broker.host, hints.broker.port) for hints in checked]
    if server and at and all(hints.verdict is Verdict.UNREACHABLE for hints in checked):
        yield "No broker can be reached where the cluster lists it. Behind tunnels: " + Command(
            "inspect hints", map=suggested_map(at, server)
        )


def _hints_table(checked: "tuple[BrokerHints, ...]") -> Table:
    """A row for the Produce and one for the Fetch that each broker was sent."""
    rows: list[tuple[Cell, ...]] = []
    for hints in checked:
        read = hints.fetched
        answers = (
            ("Produce", hints.produce, hints.asked, hints.hint, hints.verdict, hints.detail),
            ("Fetch", hints.fetch, read.asked, read.hint, read.verdict, read.detail),
        )
        for api, versions, asked, hint, verdict, detail in answers:
            rows.append(
                (
                    str(hints.broker.id),
                    hints.broker.rack,
                    f"{api} {_range(versions) or '-'}",
                    str(asked) if asked else None,
                    hint.leader_id if hint else None,
                    hint.leader_epoch if hint else None,
                    hint.address if hint else None,
                    f"{verdict}: {detail}" if detail else str(verdict),
                )
            )
    titles = ("Rack", "Asked by", "For", "Hinted leader", "Epoch", "Endpoint", "Verdict")
    return Table("Hints", (Column("Broker", right=True), *titles), tuple(rows))


def _no_right_to_write(in_fetch: int, asked: int) -> str:
    return (
        "In Produce no broker named a leader: this user has no right to Write. In Fetch"
        f" {in_fetch} of {asked} named a leader. Nothing was moved, and nothing written."
    )


def _hints_sentence(
    hinting: int, agreeing: int, drafts: int, not_asked: int, brokers: int, has_partitions: bool
) -> str:
    if not has_partitions:
        return (
            "No broker could be asked, as no topic is shown apart from internal ones:"
            " there is none, or this user may not see it."
        )
    if not_asked == brokers:
        return "No broker could be asked: it takes a partition that another broker leads."
    asked = f"{counted(brokers - not_asked, 'broker')}" + (" that were asked" if not_asked else "")
    drafted = f" {drafts} did so only in the form of KIP-951's early draft." if drafts else ""
    agree = {0: "none", hinting: "all"}.get(agreeing, str(agreeing))
    so = f", {agree} as Metadata has it" if hinting else ""
    return (
        f"{hinting} of {asked} named a leader{so}.{drafted} Nothing was moved, and nothing written."
    )


def _range(versions: tuple[int, int] | None) -> str | None:
    return f"{versions[0]}-{versions[1]}" if versions else None
