"""`inspect brokers`: which brokers are shown, and what needs them."""

from test_findings import cluster, partition

from kipctl.report.broker_tables import brokers_report

FACTS = cluster(partition(0, isr=(1, 2)), partition(1), partition(2, isr=(1, 2)))


def test_the_partitions_that_need_a_broker_are_named() -> None:
    report = brokers_report(FACTS, ())
    notes = report.tables[0].notes
    assert "Broker 1 is needed by orders-0, orders-2." in notes
    assert not any("Broker 3 is needed" in note for note in notes)
    first, _, third = report.document["brokers"]
    assert (first["needed_by"], first["needed_by_partitions"]) == (2, ["orders-0", "orders-2"])
    assert (third["needed_by"], third["needed_by_partitions"]) == (0, [])


def test_one_broker_is_shown_alone() -> None:
    report = brokers_report(FACTS, (), shown_brokers=[2])
    assert [row[0] for row in report.tables[0].rows] == [2]
    assert [broker["broker"] for broker in report.document["brokers"]] == [2]
    assert [note[:8] for note in report.tables[0].notes if "is needed" in note] == ["Broker 2"]
