"""Tables of `inspect metadata`: what a request costs, and what each broker's view lacks."""

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from kipctl.counts import broker_list, counted
from kipctl.report.leader_tables import listing
from kipctl.report.tables import Column, Paragraph, Report, Table, Tone

if TYPE_CHECKING:
    from kipctl.cluster.inspect.metadata_cost import Cost
    from kipctl.cluster.inspect.metadata_views import ComparedViews, ViewOfBroker
    from kipctl.load.metadata.convergence import Sightings

MOST_BYTES = 32_000_000
"""Of all brokers' answers, at each look and for what they cost: else some brokers are asked."""


def metadata_report(
    cost: "tuple[Cost, ...]",
    compared: "ComparedViews",
    alive: int,
    dead: tuple[int, ...],
    seen: "tuple[Sightings, ...] | None",
) -> Report:
    cost_table, costs = _costs(cost)
    view_table, views = _views(compared)
    difference_table, differences = _differences(compared)
    tables = [cost_table, view_table]
    if differences:
        tables.append(difference_table)
    document: dict[str, object] = {
        "request_costs": costs,
        "brokers": views,
        "brokers_alive": alive,
        "not_alive": dead,
        "differences": differences,
        "looks": compared.looks,
        "agree": compared.agree,
    }
    if seen is not None:
        table, convergence = _convergence(seen)
        tables.append(table)
        document["convergence"] = convergence
    tone = Tone.GOOD if compared.agree else Tone.WARNING
    opening = tuple(Paragraph(said, tone=tone) for said in sentences(compared, alive, dead))
    return Report("inspect metadata", document, tuple(tables), opening=opening)


def _costs(cost: "tuple[Cost, ...]") -> tuple[Table, list[dict[str, object]]]:
    table, objects = listing(
        "What a Metadata request costs",
        {
            "broker": "Broker",
            "asked": "Asked for",
            "topic_count": "Topics",
            "partition_count": "Partitions",
            "request_bytes": "Request bytes",
            "response_bytes": "Response bytes",
            "took_ms.p50": "p50 ms",
            "took_ms.max": "max ms",
            "error": "Error",
        },
        (
            (
                row.broker.id,
                "all topics" if row.asked is None else row.asked,
                *((row.topics, row.partitions) if not row.error else (None, None)),
                *((row.request_bytes, row.response_bytes) if not row.error else (None, None)),
                _quantile_ms(row.times_us, 0.5),
                _quantile_ms(row.times_us, 1),
                row.error.what if row.error else None,
            )
            for row in cost
        ),
    )
    columns = (*table.columns[:6], Column("p50 ms", 2), Column("max ms", 2), table.columns[8])
    return _without_errors(replace(table, columns=columns)), objects


def _views(compared: "ComparedViews") -> tuple[Table, list[dict[str, object]]]:
    table, objects = listing(
        "Each broker's view",
        {
            "broker": "Broker",
            "rack": "Rack",
            "partitions": "Partitions",
            "behind": "Behind",
            "most_epochs_behind": "Most epochs",
            "otherwise": "Otherwise different",
            "unseen_brokers": "Brokers unseen",
            "extra_brokers": "Brokers only it sees",
            "error": "Error",
        },
        (
            (
                view.broker.id,
                view.broker.rack,
                len(view.snapshot.partitions) if view.snapshot else None,
                *(_behind(view) if view.snapshot else (None, None, None)),
                view.unseen,
                view.extra,
                view.error.what if view.error else None,
            )
            for view in compared.views
        ),
    )
    return _without_errors(table), objects


def _behind(view: "ViewOfBroker") -> tuple[int, int, int]:
    """Partitions behind, by how many epochs at most, and partitions that differ otherwise."""
    behind = view.behind
    epochs = max((difference.epochs_behind or 0 for difference in behind), default=0)
    return len(behind), epochs, len(view.differences) - len(behind)


def _differences(compared: "ComparedViews") -> tuple[Table, list[dict[str, object]]]:
    return listing(
        "Shown otherwise than in the newest view",
        {
            "broker": "Broker",
            "topic": "Topic",
            "partition": "Partition",
            "leader": "Shows leader",
            "leader_epoch": "Epoch",
            "isr": "In sync",
            "newest_leader": "Newest leader",
            "newest_epoch": "Epoch",
            "newest_isr": "In sync",
        },
        (
            (
                view.broker.id,
                *difference.id,
                *(
                    (difference.shown.leader, difference.shown.leader_epoch, difference.shown.isr)
                    if difference.shown
                    else (None, None, None)
                ),
                difference.newest.leader,
                difference.newest.leader_epoch,
                difference.newest.isr,
            )
            for view in compared.views
            for difference in view.differences
        ),
    )


def _convergence(seen: "tuple[Sightings, ...]") -> tuple[Table, list[dict[str, object]]]:
    return listing(
        "Until each broker showed a new leader",
        {
            "broker": "Broker",
            "leaders_seen": "Seen",
            "after_call_ms.p50": "p50 ms after the call",
            "after_call_ms.max": "max ms",
            "behind_ms.p50": "p50 ms behind the first",
            "behind_ms.max": "max ms",
        },
        (
            (
                sightings.broker,
                len(sightings.after_call_us),
                _quantile_ms(sightings.after_call_us, 0.5),
                _quantile_ms(sightings.after_call_us, 1),
                _quantile_ms(sightings.behind_us, 0.5),
                _quantile_ms(sightings.behind_us, 1),
            )
            for sightings in seen
        ),
        ("The call is that of the election; the first is the first broker that showed it.",),
    )


def sentences(compared: "ComparedViews", alive: int, dead: tuple[int, ...]) -> tuple[str, ...]:
    """Who has replicas and could not be asked, and whether those that were asked agree.

    `alive` is how many brokers the cluster has.
    """
    again = f" after {compared.looks} looks" if compared.looks > 1 else ""
    first: tuple[str, ...] = ()
    if dead:
        first = (f"{broker_list(dead, 'are').capitalize()} not alive, and not asked.",)
    number = len(compared.views)
    if number < alive:
        first += (
            f"{counted(number, 'broker', 'were', total=alive)} asked, as the answers of all are"
            f" more than {MOST_BYTES // 1_000_000} MB. With --topic answers are shorter, and more"
            " are asked.",
        )
    if compared.agree:
        who = "All brokers that are alive" if dead else "All brokers"
        who = f"The {counted(number, 'broker')} asked" if number < alive else who
        return (*first, f"{who} show the same{again}.")
    astray = tuple(view.broker.id for view in compared.views if not view.agrees)
    reported = f"{broker_list(astray, 'do').capitalize()} not show what the others do"
    return (*first, f"{reported}, even{again}." if again else f"{reported}.")


def _without_errors(table: Table) -> Table:
    """The table without its last column where nothing stands in it."""
    if any(row[-1] is not None for row in table.rows):
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))


def _quantile_ms(times_us: tuple[int, ...], q: float) -> float | None:
    """The nearest-rank quantile in milliseconds; None of no times."""
    if not times_us:
        return None
    return sorted(times_us)[ceil(q * len(times_us)) - 1] / 1000
