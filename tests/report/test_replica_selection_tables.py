"""What a person reads of replica selection: where it differs is said under the table."""

from typing import Any

from test_formats import text

from kipctl.cluster.inspect.replica_selection import (
    NO_SELECTOR,
    RACK_AWARE,
    Answer,
    PartitionFacts,
    Replica,
    explain_choice,
)
from kipctl.cluster.inspect.replica_selection_facts import Observation
from kipctl.cluster.snapshot import PartitionId
from kipctl.report.formats import OutputFormat
from kipctl.report.layout import for_people
from kipctl.report.replica_selection_advice import closest_replicas, selectors_to_set
from kipctl.report.replica_selection_tables import (
    flip_line,
    flips_table,
    selection_answer,
    selection_tables,
    walk_answers,
    walk_tables,
)
from kipctl.report.tables import Report, Table


def row(**more: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "rack": "b",
        "leader": 1,
        "leader_rack": "a",
        "reads_from": 2,
        "reads_from_rack": "b",
        "local": True,
        "closest": True,
        "reason": "a follower in the rack",
        "detail": "",
        "expected": (2,),
        "as_expected": True,
        **more,
    }


def crossing(percent: float | None, per_s: float | None = None, price: float | None = None):
    return {
        "cross_percent": percent,
        "cross_bytes_per_second": per_s,
        "price_of_30_days": price,
    }


def rack(**more: Any) -> dict[str, Any]:
    return {
        "rack": "b",
        "is_known": True,
        "partitions": 4,
        "local_partitions": 3,
        "local_percent": 75.0,
        "closest_partitions": 4,
        "held_bytes": 1000,
        "cross_held_bytes": 250,
        "bytes_per_second": None,
        "cross_bytes_per_second": None,
        "cross_percent": 25.0,
        "from_leaders": crossing(75.0),
        "from_closest": crossing(25.0),
        "unreported_partitions": 0,
        "price_of_30_days": None,
        **more,
    }


def document(*partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"groups": [], "groups_not_shown": [], "unreported": []}
    empty |= {"rate_over_seconds": None, "price_per_gb": None, "reading_client": None}
    return {"partitions": [*partitions], "racks": [rack()], **empty, **more}


AWAY = row(partition=1, local=False, reason="no replica in the rack")


def test_a_reason_and_its_detail_are_one_sentence() -> None:
    lagging = row(reason="the replica in the rack is not in sync", detail="broker 2 is 9 behind")
    *_, table = selection_tables(document(row(), lagging))
    why = [cells[-1] for cells in table.rows]
    assert why == [
        "a follower in the rack",
        "the replica in the rack is not in sync: broker 2 is 9 behind",
    ]
    assert table.notes == ()


def test_the_answer_counts_what_stays_in_its_rack_and_says_why_the_rest_does_not() -> None:
    assert selection_answer(document(row(), AWAY, AWAY)).first == (
        "1 of 3 reads (each partition from each rack) stay in their rack."
        " The others: no replica in the rack (2)."
    )
    assert selection_answer(document(row())).first.endswith(" stay in their rack.")
    assert selection_answer(document()).first == "No partition is shown, or no rack."


def test_reads_alike_are_one_row_those_that_leave_their_rack_first() -> None:
    _, why, each = selection_tables(document(row(), row(partition=2), AWAY))
    assert why.rows == (
        ("b", False, True, "no replica in the rack", 1, "orders-1"),
        ("b", True, True, "a follower in the rack", 2, "orders-0"),
    )
    assert [cells[1] for cells in each.rows] == [1, 0, 2]


def test_people_are_shown_a_few_partitions_and_programs_all() -> None:
    many = document(*(row(partition=number) for number in range(30)))
    report = Report("", {}, selection_tables(many))
    few = for_people(report.tables[-1], 20)
    assert len(few.rows) == 20
    assert few.notes == ("And 10 more: -o wide shows them all.",)
    assert len(report.tables[-1].rows) == 30


def test_an_answer_that_the_rules_do_not_explain_is_told() -> None:
    odd = row(reads_from=1, expected=(2, 3), as_expected=False)
    *_, table = selection_tables(document(odd, row(as_expected=None)))
    assert table.notes == ("orders-0 for b: the broker named 1, the rules say 2 or 3.",)


def test_rates_and_prices_have_columns_only_where_they_were_asked_for() -> None:
    held, *_ = selection_tables(document())
    assert held.titles[-2:] == ("From leaders %", "From closest %")
    assert held.rows == (("b", 4, 3, 75.0, 4, 1000, 75.0, 25.0),)
    assert "of the bytes that the leaders hold" in held.notes[0]
    rates = {"bytes_per_second": 4e6, "cross_bytes_per_second": 1e6, "price_of_30_days": 51.84}
    asked = {"rate_over_seconds": 30.0, "price_per_gb": 0.02}
    rates["from_leaders"] = crossing(75.0, 3e6, 155.52)
    rates["from_closest"] = crossing(25.0, 1e6, 51.84)
    priced, *_ = selection_tables(document(racks=[rack(**rates)], **asked))
    assert priced.titles[-5:] == (
        *("Bytes/s", "From leaders bytes/s", "From closest bytes/s"),
        *("Price now", "Price closest"),
    )
    assert priced.rows[0][-5:] == (4e6, 3e6, 1e6, 155.52, 51.84)
    assert "over 30 s" in priced.notes[0]


def test_bytes_that_nobody_told_are_no_zero() -> None:
    unknown = rack(
        held_bytes=None,
        cross_percent=None,
        from_leaders=crossing(None),
        from_closest=crossing(None),
        unreported_partitions=1,
    )
    idle = rack(held_bytes=0, cross_percent=None, from_closest=crossing(None))
    unreported = {"topic": "orders", "partition": 3, "why": "broker 1 is gone."}
    table, *_ = selection_tables(document(racks=[unknown, idle], unreported=[unreported]))
    assert [row[-3:] for row in table.rows] == [("not known",) * 3, (0, 75.0, None)]
    assert table.notes[1] == (
        "Partitions whose bytes, or who serves them, are not known: 1; orders-3: broker 1 is gone."
    )
    partly = rack(
        bytes_per_second=None,
        cross_bytes_per_second=0.0,
        from_leaders=crossing(None, 7.0),
        from_closest=crossing(None, 0.0),
        unreported_partitions=1,
    )
    table, *_ = selection_tables(document(racks=[partly], rate_over_seconds=5.0))
    assert table.rows[0][-3:] == ("not known", 7.0, 0.0)


def test_who_names_a_rack_that_is_not_there_is_named_with_what_it_costs() -> None:
    def group(name: str, rack: str | None, **more: Any) -> dict[str, Any]:
        return {
            "group": name,
            "client_rack": rack,
            "is_known": rack == "zone-b",
            "says_rack": True,
            "client_ids": [f"{name}-app"],
            "members": 2,
            "partitions": 4,
            "now_cross_bytes_per_second": 4e6,
            "closest_cross_bytes_per_second": 1e6,
            "now_price_of_30_days": 207.36,
            "closest_price_of_30_days": 51.84,
            **more,
        }

    groups = [
        group("billing", "zoneb"),
        group("audit", None),
        group(
            *("old", None),
            says_rack=False,
            now_cross_bytes_per_second=None,
            now_price_of_30_days=None,
        ),
        group("shop", "zone-b"),
    ]
    asked = {"rate_over_seconds": 30.0, "price_per_gb": 0.02, "groups": groups}
    not_shown = [{"broker": 3, "group": None, "why": "It does not answer."}]
    unknown = rack(rack="zone-b", from_leaders=crossing(None))
    selection = document(row(), racks=[unknown], **asked, groups_not_shown=not_shown)
    answer = selection_answer(selection)
    # Of the sentences that cost money the sum comes first: 3 x 207.36, 3 x 51.84.
    assert answer.first == (
        "3 groups pay 622.08 in 30 days for what crosses racks; from the closest replica it is"
        " 155.52: 466.56 less, with client.rack set on consumers and replica.selector.class on"
        " brokers. What 1 group reads is not known, or not all of it."
    )
    stays, said = answer.others
    assert stays == "1 of 1 reads (each partition from each rack) stay in their rack."
    unpriced = document(row(), **{**asked, "price_per_gb": None})
    assert selection_answer(unpriced).first.startswith(
        "3 groups read 12.0 MB/s across racks; from the closest replica it is 3.0 MB/s: 9.0 MB/s"
    )
    assert said == (
        "The cluster has no rack 'zoneb', which group billing (billing-app) names: it reads from"
        " leaders. Did you mean 'zone-b'? That costs 155.52 in 30 days."
    )
    _, table, *_ = selection_tables(selection)
    assert [cells[1] for cells in table.rows] == ["zoneb (unknown)", "none", "not told", "zone-b"]
    assert table.rows[0][-4:] == (4e6, 1e6, 207.36, 51.84)
    assert table.rows[2][-4:] == ("not told", 1e6, "not told", 51.84)
    assert table.notes[1].startswith("Clients from before KIP-881 do not tell their rack")
    assert table.notes[2] == "Not all groups are shown: broker 3: It does not answer."
    loading = {"broker": 3, "group": "shop", "why": "COORDINATOR_LOAD_IN_PROGRESS (14)"}
    _, table, *_ = selection_tables(document(row(), groups_not_shown=[loading, *not_shown]))
    assert table.notes[1] == (
        "Not all groups are shown: group shop of broker 3: COORDINATOR_LOAD_IN_PROGRESS (14)."
        " And 1 more."
    )


def test_what_naming_a_rack_saves_is_said_where_it_is_known() -> None:
    # Brokers name leaders to all: what crosses racks now says nothing of the closest replica.
    rates = {"bytes_per_second": 4e6, "cross_bytes_per_second": 3e6, "price_of_30_days": 155.52}
    rates["from_closest"] = crossing(25.0, 1e6, 51.84)
    b = rack(**rates, from_leaders=crossing(75.0, 3e6, 155.52))
    c = rack(**{**rates, "rack": "c"}, from_leaders=crossing(25.0, 1e6, 51.84))
    asked = {"rate_over_seconds": 30.0, "price_per_gb": 0.02}
    said = selection_answer(document(row(), racks=[b, c], **asked))
    assert said.others == (
        "Consumers that name no rack read from leaders, 50 % of it across racks; from the closest"
        " replica it is 25 %, with client.rack set on consumers and replica.selector.class on"
        " brokers.",
        "That is 207.36 and 103.68 in 30 days: 103.68 less, if every partition is read once in"
        " each rack; no group is known that reads them.",
    )
    reads = {"group": "shop", "client_rack": None, "is_known": False, "says_rack": True}
    reads |= {"now_cross_bytes_per_second": 1e6, "closest_cross_bytes_per_second": 1e6}
    reads |= {"now_price_of_30_days": 51.84, "closest_price_of_30_days": 51.84}
    said = selection_answer(document(row(), racks=[b, c], groups=[reads], **asked))
    assert said.first.startswith("1 group pays 51.84 in 30 days")
    assert len(said.others) == 1
    elsewhere = {**c, "is_known": False}
    assert selection_answer(document(row(), racks=[b, elsewhere], **asked)).others == ()
    unknown = rack(from_leaders=crossing(None))
    assert selection_answer(document(row(), racks=[b, unknown], **asked)).others == ()


def test_brokers_without_a_selector_are_advised_to_set_it() -> None:
    def found(*selectors: str) -> Observation:
        """A partition of each broker, with a replica in its rack a and one in b."""
        facts = [
            PartitionFacts(
                PartitionId("t", leader),
                leader,
                selector,
                0,
                (Replica(leader, "a", True), Replica(9, "b", True)),
            )
            for leader, selector in enumerate(selectors, 1)
        ]
        choices = [
            explain_choice(partition, rack, Answer(partition.leader), ("a", "b"))
            for partition in facts
            for rack in ("a", "b", "typo")
        ]
        return Observation(("a", "b"), tuple(facts), tuple(choices), {})

    advice, how = selectors_to_set(found(NO_SELECTOR, RACK_AWARE, NO_SELECTOR))
    assert advice == (
        "Brokers 1, 3 send every reader to the leader: set replica.selector.class there to"
        " org.apache.kafka.common.replica.RackAwareReplicaSelector, and restart."
    )
    assert how == "See the order of restarts: kipctl roll --dry-run"
    assert selectors_to_set(found(NO_SELECTOR))[0].startswith("Broker 1 sends every reader")
    many = selectors_to_set(found(*[NO_SELECTOR] * 7))[0]
    assert many.startswith("Brokers 1, 2, 3, 4, 5 and 2 more send every reader")
    assert selectors_to_set(found(RACK_AWARE)) == ()


def test_topics_without_traffic_are_not_advised_to_move() -> None:
    def facts(topic: str) -> PartitionFacts:
        return PartitionFacts(PartitionId(topic, 0), 1, RACK_AWARE, 0, (Replica(1, "a", True),))

    partitions = tuple(map(facts, ("audit", "orders", "idle")))
    choices = tuple(explain_choice(part, "b", Answer(1), ("a", "b")) for part in partitions)
    observation = Observation(("a", "b"), partitions, choices, {})
    per_s = {PartitionId("orders", 0): 4e6, PartitionId("audit", 0): 0.2}
    _, give = closest_replicas(observation, per_s)
    assert give.endswith("--replication-factor 2 --topic orders --topic audit --dry-run")
    _, give = closest_replicas(observation, {})
    assert "--topic audit --topic orders --topic idle" in give


def client_table(**more: Any) -> Table:
    """Of a client that has read a partition."""
    read = {"topic": "orders", "partition": 0, "rack": "b", "broker": 2, "broker_rack": "b"}
    read |= {"records": 10, "bytes": 1000, "agrees": True} | more
    client = {"name": "librdkafka", "version": "2.16.0", "reads": [read]}
    return selection_tables(document(row(), reading_client=client))[2]


def test_what_a_client_did_stands_beside_it() -> None:
    table = client_table()
    assert table.title == "Where librdkafka 2.16.0 reads"
    assert table.rows == (("orders", 0, "b", 2, "b", 10, 1000, True),)
    assert table.notes == ()
    (note,) = client_table(broker=None, records=0).notes
    assert note == "A partition without records is read from nowhere."
    (note,) = client_table(records=1, bytes=0).notes
    assert note.startswith("Records of 0 bytes are transaction markers")


def test_a_walk_begins_with_what_the_broker_really_said() -> None:
    steps = [
        {"rule": "in b", "facts": "1 a, 2 b", "left": (2,)},
        {"rule": "the rest", "facts": "not known", "left": ()},
    ]
    walks = [
        row(steps=steps),
        row(steps=steps, reads_from=1, as_expected=False, reason="chose otherwise"),
        row(steps=[], reads_from=None, as_expected=None, reason="no leader"),
    ]
    walked = {"topic": "orders", "partition": 0, "walks": walks}
    tables = walk_tables(walked)
    assert tables[0].title == "orders-0, for a reader in b"
    assert tables[0].rows == (
        ("in b", "1 a, 2 b", "2"),
        ("the rest", "not known", "cannot be told"),
    )
    answers = [
        "The leader of orders-0 sends a reader in b to broker 2: a follower in the rack.",
        "The leader of orders-0 sends a reader in b to broker 1, which is not what the rules say:"
        " chose otherwise.",
        "The leader of orders-0 named nobody to a reader in b: no leader.",
    ]
    opening = walk_answers(walked)
    assert [paragraph.first for paragraph in opening] == answers
    report = Report("", walked, tables, opening=opening)
    assert text(OutputFormat.AUTO, report).startswith(answers[0])


def test_a_flip_is_one_line() -> None:
    flip = {"time": "12:00:00", "topic": "orders", "partition": 0, "rack": "b"}
    flip |= {"from_broker": None, "to_broker": 2, "why": "leader 1 -> 2; the leader is in the rack"}
    assert flip_line(flip) == (
        "12:00:00  orders-0  b: nowhere -> 2  leader 1 -> 2; the leader is in the rack"
    )
    assert flips_table({"flips": [flip]}).rows == (tuple(flip.values()),)
