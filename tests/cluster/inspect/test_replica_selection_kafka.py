"""`kipctl inspect replica-selection` on real brokers: each reason, made by real settings."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from on_lab import Kipctl, MakeTopic, in_sync, wait_until_everywhere

from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.plans.plan import plan_to
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.lab import node as lab_node
from kipctl.lab import properties as lab_properties
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import NodeSpec
from kipctl.process import wait_until
from kipctl.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kipctl.report.replica_selection_tables import selection_answer
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
MakeLab = Callable[..., Lab]
LEADER, FOLLOWER = "the leader is in the rack", "a follower in the rack"
NO_REPLICA = "no replica in the rack"


def write(
    lab: Lab, topic: str, partition: int, records: int, size: int = 100, acks: str = "all"
) -> None:
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "acks": acks, "log_level": 0})
    for _ in range(records):
        producer.produce(topic, b"x" * size, partition=partition)
    assert producer.flush(30) == 0


def shown(kipctl: Kipctl, *arguments: str, status: int = 0) -> Any:
    return kipctl("inspect replica-selection", *arguments, "-o json", status=status).document


def shown_while_written(kipctl: Kipctl, *arguments: str) -> Any:
    """The same where records came in meanwhile: a broker may have stood still just then."""
    while not (document := shown(kipctl, *arguments))["racks"][-1]["bytes_per_second"]:
        pass
    return document


def choices(document: Any) -> dict[tuple[int, str], tuple[int | None, str]]:
    """(partition, rack) -> (broker read from, reason)."""
    return {
        (row["partition"], row["rack"]): (row["reads_from"], row["reason"])
        for row in document["partitions"]
    }


@pytest.fixture(autouse=True)
def librdkafka_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kipctl.cli.commands.replica_selection._CLIENT_TIMEOUT_S", 120.0)


def test_each_rack_is_sent_to_its_replica_and_librdkafka_goes_there(
    lab: Lab, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("everywhere", [[1, 2, 3], [2, 3, 1]])
    for partition in (0, 1):
        write(lab, topic, partition, 30)
    document = shown(kipctl, "--topic", topic, "--require-local", "100%", "--client", "librdkafka")
    assert choices(document) == {
        (0, "rack-1"): (1, LEADER),
        (0, "rack-2"): (2, FOLLOWER),
        (0, "rack-3"): (3, FOLLOWER),
        (1, "rack-1"): (1, FOLLOWER),
        (1, "rack-2"): (2, LEADER),
        (1, "rack-3"): (3, FOLLOWER),
    }
    assert all(
        row["local"] and row["closest"] and row["as_expected"] for row in document["partitions"]
    )
    assert [rack["cross_percent"] for rack in document["racks"]] == [0, 0, 0]
    reads = document["reading_client"]["reads"]
    assert len(reads) == 6
    for read in reads:
        assert read["broker_rack"] == read["rack"]
        assert read["agrees"]
        assert read["records"] > 0
        assert read["bytes"] == 100 * read["records"]
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    groups = admin.list_consumer_groups().result().valid
    assert "kipctl-replica-selection" not in {group.group_id for group in groups}


def test_librdkafka_reads_on_after_transaction_markers(
    lab: Lab, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("aborted", [[1, 2], [1, 2]])
    settings = {"bootstrap.servers": lab.bootstrap_server, "log_level": 0}
    producer = Producer({**settings, "transactional.id": "aborting"})
    producer.init_transactions()
    for partition, transactions in ((0, 1), (1, 2)):
        for _ in range(transactions):
            producer.begin_transaction()
            producer.produce(topic, b"x" * 100, partition=partition)
            assert producer.flush(30) == 0
            producer.abort_transaction()
    # Of partition 1 the last marker is all that is left, once it is written.
    admin = AdminClient(settings)
    end = TopicPartition(topic, 1)
    assert wait_until(
        lambda: admin.list_offsets({end: OffsetSpec.latest()})[end].result().offset >= 4, 60
    )
    for deleted in admin.delete_records([TopicPartition(topic, 1, 3)]).values():
        deleted.result()
    arguments = ("--topic", topic, "--client-rack", "rack-2", "--client", "librdkafka")
    first, second = shown(kipctl, *arguments)["reading_client"]["reads"]
    assert (first["broker"], first["bytes"], first["agrees"]) == (2, 100, True)
    assert (second["broker"], second["records"], second["bytes"]) == (2, 1, 0)


def test_racks_without_a_replica_and_racks_that_are_not_there(
    lab: Lab, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("not-in-rack-3", [[1, 2], [2, 1]])
    write(lab, topic, 0, 10)
    write(lab, topic, 1, 30)
    document = shown(kipctl, "--topic", topic)
    assert choices(document) == {
        (0, "rack-1"): (1, LEADER),
        (0, "rack-2"): (2, FOLLOWER),
        (0, "rack-3"): (1, NO_REPLICA),
        (1, "rack-1"): (1, FOLLOWER),
        (1, "rack-2"): (2, LEADER),
        (1, "rack-3"): (2, NO_REPLICA),
    }
    assert [row["closest"] for row in document["partitions"]] == [True] * 6
    assert [rack["local_percent"] for rack in document["racks"]] == [100, 100, 0]
    assert [rack["cross_percent"] for rack in document["racks"]] == [0, 0, 100]
    assert document["racks"][0]["held_bytes"] > 40 * 100
    plain = kipctl("inspect replica-selection --topic", topic).out
    assert f"kipctl reassign --replication-factor 3 --topic {topic} --dry-run" in plain

    arguments = ("--topic", f"{topic}:1", "--client-rack", "rack-9", "--client-rack", "rack-2")
    ran = kipctl("inspect replica-selection", *arguments, "--require-local 95%", status=7)
    assert "The cluster has no rack 'rack-9'; it has rack-1, rack-2, rack-3." in ran.err
    assert "Fewer than 95 % of the partitions are read within the rack: rack-9 0 of 1." in ran.err
    document = shown(kipctl, *arguments)
    assert choices(document) == {
        (1, "rack-9"): (2, "the cluster has no such rack"),
        (1, "rack-2"): (2, LEADER),
    }
    assert [rack["is_known"] for rack in document["racks"]] == [False, True]


def test_what_is_not_there_is_wrong_usage(kipctl: Kipctl, make_topic: MakeTopic) -> None:
    topic = make_topic("two-partitions", [[1, 2], [2, 1]])
    for asked, told in (
        (f"{topic}:2", f"Topic {topic!r} has no partition 2; it has 0 to 1."),
        (f"{topic}:x", "is not a partition"),
        ("absent:0", "No topic is named 'absent'."),
        ("absent-*", "No topic matches 'absent-*'."),
    ):
        ran = kipctl("inspect replica-selection --topic", f"'{asked}'", status=2)
        assert ran.out == ""
        assert told in ran.err


def test_a_choice_is_walked_through(kipctl: Kipctl, make_topic: MakeTopic) -> None:
    topic = make_topic("walked", [[1, 2]])
    arguments = ("--explain", f"{topic}:0", "--client-rack", "rack-2")
    while (walk := shown(kipctl, *arguments)["walks"][0])["reason"] != FOLLOWER:
        pass  # the leader names a follower that has asked it for records
    assert walk["reads_from"] == 2
    assert [step["left"] for step in walk["steps"]] == [[1, 2]] * 5 + [[2]]
    ran = kipctl("inspect replica-selection --explain", f"{topic}:0")
    assert "offset 0; log ends: 1 0, 2 0" in ran.out
    answer = f"The leader of {topic}-0 sends a reader in rack-"
    lines = ran.out.splitlines()
    assert [line.startswith(answer) for line in lines[:4]] == [True, True, True, False], ran.out


@pytest.fixture
def written_to(lab: Lab, make_topic: MakeTopic) -> Iterator[str]:
    """A topic without replica in rack-3 that is written to until the test is over."""
    topic, begun, over = make_topic("written-to", [[1, 2]]), threading.Event(), threading.Event()

    def go_on() -> None:
        producer = Producer({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
        while not over.is_set():
            producer.produce(topic, b"x" * 100)
            assert producer.flush(30) == 0
            begun.set()

    writer = threading.Thread(target=go_on)
    writer.start()
    assert begun.wait(60)
    yield topic
    over.set()
    writer.join()


def test_bytes_across_racks_and_their_price(kipctl: Kipctl, written_to: str) -> None:
    options = ("--topic", written_to, "--rate-over", "1s", "--price-per-gb", "0.02")
    document = shown_while_written(kipctl, *options)
    here, _, there = document["racks"]
    assert here["bytes_per_second"] == there["bytes_per_second"] == there["cross_bytes_per_second"]
    assert (here["cross_bytes_per_second"], here["cross_percent"], here["price_of_30_days"]) == (
        0,
        0,
        0,
    )
    # All leaders are in the first rack: it is the others that pay for reading from leaders.
    now = [rack["from_leaders"] for rack in document["racks"]]
    assert [crossing["cross_percent"] for crossing in now] == [0, 100, 100]
    assert now[1]["price_of_30_days"] == there["price_of_30_days"] > 0
    month_gb = there["cross_bytes_per_second"] * 30 * 24 * 3600 / 1e9
    assert there["price_of_30_days"] == pytest.approx(month_gb * 0.02)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_names_no_rack_and_who_a_mistyped_one(
    lab: Lab, kipctl: Kipctl, written_to: str, protocol: str
) -> None:
    racks = {f"typo-{protocol}": "rack2", f"right-{protocol}": "rack-2", f"none-{protocol}": ""}
    readers = {
        group: Consumer(
            {
                "bootstrap.servers": lab.bootstrap_server,
                "group.id": group,
                "group.protocol": protocol,
                "client.id": f"{group}-app",
                "client.rack": rack,
            }
        )
        for group, rack in racks.items()
    }
    try:
        for reader in readers.values():
            reader.subscribe([written_to])
        until_s = time.monotonic() + 60
        while not all(reader.assignment() for reader in readers.values()):
            assert time.monotonic() < until_s
            for reader in readers.values():
                reader.poll(0.1)
        arguments = ("--topic", written_to, "--rate-over", "1s", "--price-per-gb", "0.02")
        documents = [
            shown_while_written(kipctl, *arguments, *only)
            for only in ((), ("--client-rack", "rack-1"))
        ]
    finally:
        for reader in readers.values():
            reader.close()
    # Groups are counted over all racks, whichever are shown.
    assert [len(document["racks"]) for document in documents] == [3, 1]
    for document in documents:
        _check_groups(document, protocol)


def _check_groups(document: Any, protocol: str) -> None:
    groups = {f"{rack}-{protocol}" for rack in ("typo", "right", "none")}
    rows = {row["group"]: row for row in document["groups"] if row["group"] in groups}
    assert {group: (row["client_rack"], row["is_known"]) for group, row in rows.items()} == {
        f"typo-{protocol}": ("rack2", False),
        f"right-{protocol}": ("rack-2", True),
        f"none-{protocol}": (None, False),
    }
    assert rows[f"typo-{protocol}"]["client_ids"] == [f"typo-{protocol}-app"]
    # In rack-2 there is a follower, in rack-3 none; the leader is in rack-1.
    assert rows[f"right-{protocol}"]["now_cross_bytes_per_second"] == 0
    for group in (f"typo-{protocol}", f"none-{protocol}"):
        now, closest = (
            rows[group][f"{when}_cross_bytes_per_second"] for when in ("now", "closest")
        )
        assert now == pytest.approx(2 * closest)
        assert rows[group]["now_price_of_30_days"] > rows[group]["closest_price_of_30_days"] > 0
    assert document["groups_not_shown"] == []
    paid = sum(row["now_price_of_30_days"] or 0 for row in document["groups"])
    assert f" pay {paid:,.2f} in 30 days" in selection_answer(document).first


WATCHES_PATIENTLY = """
from kipctl.cli.commands import replica_selection
from kipctl.cli.app import main
replica_selection._WATCH_TIMEOUT_S = 15.0
main()
"""


def test_flips_are_told_as_they_happen(
    lab: Lab, cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    topic = make_topic("flipping", [[1, 2]])
    with subprocess.Popen(
        [
            *(sys.executable, "-c", WATCHES_PATIENTLY, "inspect", "replica-selection", "--watch"),
            *("--topic", topic, "--client-rack", "rack-3"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == "Watching 1 partition, read in 1 rack, until Ctrl-C.\n"
        reassign(cluster, plan_to(take_snapshot(cluster, [topic]), {PartitionId(topic, 0): (2, 1)}))
        kipctl("elect preferred --topic", topic, "--yes")
        told = []
        for line in process.stdout:
            told.append(line)
            if "-> 2  " in line:  # by way of nowhere, if the new leader is slow
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert told[0].split("  ", 1)[1].startswith("flipping-0  rack-3: 1 -> ")
    assert told[-1].endswith("no replica in the rack\n")
    assert any("  leader 1 -> 2; " in line for line in told)
    assert (process.returncode, err) == (0, "")


def configure(lab: Lab, resource: ConfigResource, name: str, value: str | None) -> None:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=operation))
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result()


def throttle(lab: Lab, rate: str | None) -> None:
    """Let broker 3 copy so many bytes of topic t per second; None: as many as it can.

    Returns when broker 3 knows it.
    """
    replicas = "follower.replication.throttled.replicas"
    rates = "follower.replication.throttled.rate"
    configure(lab, ConfigResource(ResourceType.TOPIC, "t"), replicas, rate and "*")
    configure(lab, ConfigResource(ResourceType.BROKER, "3"), rates, rate)
    request = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(ResourceType.TOPIC.value, "t", (replicas,)),
            DescribeConfigsResource(ResourceType.BROKER.value, "3", (rates,)),
        )
    )
    with Cluster(lab.bootstrap_server) as cluster:
        while True:
            results = cluster.broker(3).request(request).results
            told = [config.value for result in results for config in result.configs]
            if (rate in told and "*" in told) if rate else not {"*", "1000"} & set(told):
                return


@pytest.fixture
def selector_is_not_set_on_broker_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def server_properties(spec: NodeSpec, *more: Any) -> dict[str, str]:
        properties = lab_properties.server_properties(spec, *more)
        if spec.id == 2:
            del properties["replica.selector.class"]
        return properties

    monkeypatch.setattr(lab_node, "server_properties", server_properties)


@pytest.mark.usefixtures("selector_is_not_set_on_broker_2")
def test_selectors_not_set_and_followers_that_fail_or_lag(
    make_lab: MakeLab, kipctl: Kipctl
) -> None:
    own = make_lab(
        config=(
            ("replica.lag.time.max.ms", "1500"),
            ("replica.fetch.max.bytes", "20000"),
            # A broker that is paused stays in the cluster.
            ("broker.session.timeout.ms", "600000"),
        )
    )
    arguments = ("--bootstrap-server", own.bootstrap_server, "--topic", "t")

    def rack_3(partition: int = 0, status: int = 0) -> tuple[int | None, str, str]:
        """Broker, reason and detail for a reader in rack-3."""
        document = shown(kipctl, *arguments, "--client-rack", "rack-3", status=status)
        row = document["partitions"][partition]
        return row["reads_from"], row["reason"], row["detail"]

    def until(reason: str) -> tuple[int | None, str, str]:
        while (choice := rack_3())[1] != reason:
            pass
        return choice

    admin = AdminClient({"bootstrap.servers": own.bootstrap_server, "log_level": 0})
    new = NewTopic("t", 2, replica_assignment=[[1, 2, 3], [2, 3, 1]])
    admin.create_topics([new])["t"].result()
    with Cluster(own.bootstrap_server) as cluster:
        wait_until_everywhere(cluster, "t", in_sync)
    write(own, "t", 0, 10)

    no_selector = "no replica.selector.class on the leader's broker"
    expected = {
        (0, "rack-1"): (1, LEADER),
        (0, "rack-2"): (2, FOLLOWER),
        (0, "rack-3"): (3, FOLLOWER),
        (1, "rack-1"): (2, no_selector),
        (1, "rack-2"): (2, LEADER),
        (1, "rack-3"): (2, no_selector),
    }
    deadline = time.monotonic() + 60
    while choices(document := shown(kipctl, *arguments)) != expected:
        # On a busy machine a follower may be 1.5 s behind.
        assert time.monotonic() < deadline, document
    assert [rack["from_closest"]["cross_percent"] for rack in document["racks"]] == [0, 0, 0]
    ran = kipctl("inspect replica-selection", *arguments)
    assert "Broker 2 sends every reader to the leader: set replica.selector.class there" in ran.out

    # A follower that stands still is named as long as it lacks nothing.
    throttle(own, "1000")
    own.pause(3)
    assert rack_3() == (3, "the broker that was named does not answer", "broker 3")
    write(own, "t", 0, 2000, 1000, acks="1")
    assert until("the replica in the rack is not in sync") == (
        1,
        "the replica in the rack is not in sync",
        "broker 3 does not answer, so how far behind is not known",
    )

    own.resume(3)
    while "records behind" not in (lags := rack_3())[2]:
        pass
    assert lags[:2] == (1, "the replica in the rack is not in sync")
    assert 0 < int(lags[2].split()[3].replace(",", "")) <= 2000

    throttle(own, None)
    assert until(FOLLOWER)[0] == 3

    own.stop(3)
    assert until("the replica in the rack is offline") == (
        1,
        "the replica in the rack is offline",
        "broker 3",
    )
    assert shown(kipctl, *arguments)["racks"][2]["is_known"]

    own.pause(2)  # leads partition 1, which nobody else can be asked for
    ran = kipctl("inspect replica-selection", *arguments, "--client-rack rack-1", status=5)
    assert "1 of 2 partitions could not be asked for: t-1, the leader gave no answer" in ran.err
