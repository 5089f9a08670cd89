"""What the doctor finds that others left behind, rule by rule, and that it stays short."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from http_peers import peer, saying
from reassigning import Held, Reassigning
from scripted_broker import Asked
from test_findings import cluster, healthy, in_rack, partition, told

from kipctl.changes.journal.entry import Origin
from kipctl.cluster.eligible_leader_replicas import EligibleReplicas
from kipctl.cluster.inspect.findings.copy_stalls import Reassignments, SizesSeen, stalled
from kipctl.cluster.inspect.findings.diagnose import diagnose
from kipctl.cluster.inspect.findings.facts import BrokerFacts, ClusterFacts, LogDir, TopicFacts
from kipctl.cluster.inspect.findings.isr import may_be_needed, needed_by
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.cluster.throttle_configs import (
    BROKER,
    DISK_RATE,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    TOPIC,
    KnownThrottles,
    Setting,
)
from kipctl.cluster.throttles import waiting_for
from kipctl.protocol.describe_configs import ConfigSource, ResourceType
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.reassignments import ListPartitionReassignmentsRequest
from kipctl.report.broker_tables import brokers_report
from kipctl.report.led_partition_tables import leaders_report
from kipctl.severity import Severity

ORDERS_0, ORDERS_1 = PartitionId("orders", 0), PartitionId("orders", 1)
TO_4 = Reassignment(ORDERS_0, (1, 2, 4, 3), (4,), (3,))
ALSO_TO_4 = replace(TO_4, id=ORDERS_1)
RATE = {LEADER_RATE: 1000, FOLLOWER_RATE: 2000}
LISTED = {"orders": TopicFacts(2, False, {FOLLOWER_REPLICAS: "*"})}
ELSEWHERE = Reassignment(PartitionId("other", 0), (5, 6), (6,), (5,))


def four(*changed: BrokerFacts, partitions: tuple[Partition, ...] = ()) -> ClusterFacts:
    """A healthy cluster of four brokers, with these in the place of theirs."""
    by_id = {n: replace(healthy(n), lists=frozenset({1, 2, 3, 4})) for n in (1, 2, 3, 4)}
    by_id |= {broker.id: replace(broker, lists=frozenset({1, 2, 3, 4})) for broker in changed}
    return cluster(*(partitions or (partition(0),)), brokers=tuple(by_id.values()))


def throttled(broker: int, rates: Mapping[str, int] = RATE) -> BrokerFacts:
    return replace(healthy(broker), throttles=rates)


LEFT = "A replication throttle is still set, and nothing that needs it is being reassigned: "


def with_directories(broker: int, *directories: LogDir) -> BrokerFacts:
    return replace(healthy(broker), directories=directories)


@pytest.mark.parametrize(
    ("facts", "busy", "findings"),
    [
        (four(), (), []),
        (
            replace(four(throttled(1), throttled(2)), topics=LISTED),
            (),
            [
                f"warning: {LEFT}a rate on brokers 1, 2 (1,000 to 2,000 B/s) and replicas of 1"
                " topic (orders)."
            ],
        ),
        (
            four(throttled(1), throttled(2, {LEADER_RATE: 500})),
            (),
            [f"note: {LEFT}a rate on brokers 1, 2 (500 to 2,000 B/s)."],
        ),
        (replace(four(), topics=LISTED), (), [f"note: {LEFT}replicas of 1 topic (orders)."]),
        # Of brokers and topics that a reassignment concerns nothing is left behind.
        (replace(four(throttled(1), throttled(4)), topics=LISTED), (TO_4,), []),
        # The topic's list still holds its replicas back, at the rate that another topic needs.
        (
            replace(four(throttled(4)), topics=LISTED),
            (replace(TO_4, id=PartitionId("other", 0)),),
            [f"warning: {LEFT}replicas of 1 topic (orders)."],
        ),
        (
            four(throttled(3)),
            (ELSEWHERE,),
            [f"note: {LEFT}a rate on broker 3 (1,000 to 2,000 B/s)."],
        ),
    ],
)
def test_throttles_that_nothing_needs(
    facts: ClusterFacts, busy: tuple[Reassignment, ...], findings: list[str]
) -> None:
    shown = told(replace(facts, copying=Reassignments(busy)))
    assert [finding for finding in shown if "throttle" in finding] == findings


def test_a_throttle_that_waits_for_a_broker_that_is_away_may_be_meant() -> None:
    lacks = partition(0, replicas=(1, 2, 9), isr=(1, 2))
    facts = replace(four(throttled(1), throttled(2), partitions=(lacks,)), topics=LISTED)
    (finding,) = (finding for finding in diagnose(facts) if finding.id == "throttle-left-behind")
    assert finding.consequence == "Broker 9 is away, and will catch up no faster."
    assert finding.change.startswith("Leave it if that is meant. If not, take it off: kipctl")
    assert finding.severity is Severity.NOTE
    # Without a list nothing holds it back.
    unlisted = replace(facts, topics={})
    (finding,) = (finding for finding in diagnose(unlisted) if finding.id == "throttle-left-behind")
    assert "Broker 9" not in finding.consequence


def test_a_rate_of_copies_between_disks_holds_no_broker_back() -> None:
    lacks = partition(0, replicas=(1, 2, 9), isr=(1, 2))
    listed = Setting(TOPIC, "orders", LEADER_REPLICAS)
    snapshot = four(partitions=(lacks,)).snapshot
    assert waiting_for({listed: "*", Setting(BROKER, "1", LEADER_RATE): "7"}, snapshot) == (9,)
    assert waiting_for({listed: "*", Setting(BROKER, "1", DISK_RATE): "7"}, snapshot) == ()


def test_throttles_are_not_judged_while_reassignments_are_not_known() -> None:
    facts = replace(
        four(throttled(1)), topics=LISTED, copying=Reassignments(error="No controller.")
    )
    assert told(facts) == ["note: What is being reassigned is not known: No controller."]


TOOL = "kafka-configs --bootstrap-server host:1 --alter --entity-type"
OF_RATES = f"--delete-config {FOLLOWER_RATE},{LEADER_RATE}"
FOR_ALL = dict.fromkeys(RATE, (ConfigSource.ALL_BROKERS,))


def with_default(broker: int) -> BrokerFacts:
    return replace(throttled(broker), throttles_from=FOR_ALL)


@pytest.mark.parametrize(
    ("facts", "commands"),
    [
        (four(throttled(1)), (f"{TOOL} brokers --entity-name 1 {OF_RATES}",)),
        (
            replace(four(throttled(1), throttled(2)), topics=LISTED),
            (
                f"{TOOL} brokers --entity-name 1 {OF_RATES}",
                f"{TOOL} brokers --entity-name 2 {OF_RATES}",
                f"{TOOL} topics --entity-name orders --delete-config {FOLLOWER_REPLICAS}",
            ),
        ),
        # Of a broker that has none of its own nothing can be removed: it is set for all.
        (
            four(*map(with_default, (1, 2, 3, 4))),
            (f"{TOOL} brokers --entity-default {OF_RATES}",),
        ),
        # Too many to be read: the command that takes them off shows them.
        (four(*map(throttled, (1, 2, 3, 4))), ()),
    ],
)
def test_how_a_throttle_is_removed(facts: ClusterFacts, commands: tuple[str, ...]) -> None:
    if not commands:
        more = {f"t{n}": TopicFacts(2, False, {FOLLOWER_REPLICAS: "*"}) for n in range(2)}
        facts = replace(facts, topics=facts.topics | more)
    (finding,) = diagnose(replace(facts, bootstrap_server="host:1"))
    assert finding.commands == commands
    assert finding.change.startswith("Take it off: kipctl changes clear-throttles --all")
    assert ("--dry-run" in finding.change) == (not commands)


def test_a_rate_that_is_set_for_all_brokers_is_said_so() -> None:
    (finding,) = diagnose(four(*map(with_default, (1, 2, 3, 4))))
    assert (
        finding.what == f"{LEFT}a rate on all brokers, set as their default (1,000 to 2,000 B/s)."
    )


CATCHES_UP = partition(0, isr=(1, 2))


def test_a_throttle_of_a_broker_that_catches_up_is_no_leftover() -> None:
    facts = replace(
        four(*map(throttled, (1, 2, 3, 4)), partitions=(CATCHES_UP,)),
        topics=LISTED,
        bytes_to_go={3: 400_000},
    )
    shown = [finding for finding in told(facts) if "throttle" in finding]
    assert sorted(shown) == [
        "note: A replication throttle is still set, and nothing that needs it is being"
        " reassigned: a rate on broker 4 (1,000 to 2,000 B/s).",
        "note: Broker 3 catches up under a throttle of 2,000 B/s: 1 partition out of sync"
        " (orders-0), 400.0 kB to go, about 3 min 20 s left at that rate.",
    ]


@pytest.mark.parametrize("listed", ["0:1", "1:3", "0:33"])
def test_of_replicas_that_are_not_listed_nobody_is_held_back(listed: str) -> None:
    facts = replace(
        four(throttled(3), partitions=(CATCHES_UP,)),
        topics={"orders": TopicFacts(2, False, {FOLLOWER_REPLICAS: listed})},
    )
    assert not any("catches up" in finding for finding in told(facts))


def test_a_default_rate_that_one_broker_needs_is_not_to_be_removed() -> None:
    facts = replace(four(*map(with_default, (1, 2, 3, 4)), partitions=(CATCHES_UP,)), topics=LISTED)
    shown = [finding for finding in told(facts) if "throttle" in finding]
    assert len(shown) == 1
    assert "catches up under" in shown[0]


def test_a_throttle_of_a_kipctl_at_work_is_a_note_that_names_it() -> None:
    who = "the running kipctl (reassign, process 7)"
    mine = {
        (Setting(BROKER, str(broker), config), str(rate)): who
        for broker in (1, 2)
        for config, rate in RATE.items()
    }
    facts = replace(four(throttled(1), throttled(2)), known_throttles=KnownThrottles(running=mine))
    (finding,) = diagnose(facts)
    assert (finding.severity, finding.id) == (Severity.NOTE, "throttle-in-use")
    assert finding.what.startswith(f"Replication is throttled by {who}: ")


def test_a_broker_that_a_running_kipctl_holds_back_is_not_to_be_let_go_by_another() -> None:
    mine = {
        (Setting(BROKER, "3", config), str(rate)): "the running kipctl (reassign, process 7)"
        for config, rate in RATE.items()
    }
    facts = replace(four(throttled(3), partitions=(CATCHES_UP,)), topics=LISTED)
    assert any("catches up under" in said for said in told(facts))
    facts = replace(facts, known_throttles=KnownThrottles(running=mine))
    assert not any("catches up under" in said for said in told(facts))


def test_what_kipctl_has_left_is_put_back_from_its_journal() -> None:
    mine = {
        (Setting(BROKER, "1", config), str(rate)): "entry 1 (kipctl reassign --drain 4)"
        for config, rate in RATE.items()
    }
    facts = replace(four(throttled(1)), known_throttles=KnownThrottles(left=mine))
    (finding,) = diagnose(facts)
    assert finding.what.endswith("Set by entry 1 (kipctl reassign --drain 4).")
    assert finding.change.startswith("Take it off: kipctl changes clear-throttles.")


@pytest.mark.parametrize(
    ("copying", "findings"),
    [
        (Reassignments(), []),
        (Reassignments((TO_4,)), ["note: 1 partition is being reassigned: orders-0."]),
        (
            Reassignments((TO_4, ALSO_TO_4), stalled={4: (ORDERS_0, ORDERS_1)}, looked_s=12.0),
            [
                "warning: Broker 4 copied nothing in 12 s, though 2 partitions are on the way to"
                " it: orders-0, orders-1.",
                "note: 2 partitions are being reassigned: orders-0, orders-1.",
            ],
        ),
        (
            Reassignments((replace(TO_4, replicas=(1, 2, 5, 3), adding=(5,)),)),
            [
                "warning: Broker 5 is not alive, and 1 partition is on the way to it: orders-0.",
                "note: 1 partition is being reassigned: orders-0.",
            ],
        ),
    ],
)
def test_reassignments_and_those_that_stand_still(
    copying: Reassignments, findings: list[str]
) -> None:
    assert told(replace(four(), copying=copying)) == findings


@pytest.mark.parametrize(
    ("partition", "findings"),
    [
        # On its way from 3 to 4: what 4 lacks is no fault, and nor is it that 4 does not lead yet.
        (Partition(ORDERS_0, (4, 1, 2, 3), (1, 2, 3), 1, 5), []),
        (
            Partition(ORDERS_0, (4, 1, 2, 3), (1, 2), 1, 5),
            [
                "warning: 1 partition has replicas out of sync, and just min.insync.replicas left:"
                " orders-0."
            ],
        ),
        (
            Partition(ORDERS_0, (1, 2, 4, 3), (1, 2, 3), 2, 5),
            ["warning: 1 of 1 partition (100.0 %) is not led by the preferred replica."],
        ),
    ],
)
def test_replicas_that_are_being_added_are_not_missed(
    partition: Partition, findings: list[str]
) -> None:
    facts = replace(four(partitions=(partition,)), copying=Reassignments((TO_4,)))
    assert told(facts)[:-1] == findings


def test_a_throttle_is_named_where_nothing_is_copied() -> None:
    copying = Reassignments((TO_4,), stalled={4: (ORDERS_0,)}, looked_s=12.0)
    assert (
        "warning: Broker 4 copied nothing in 12 s (throttled to 1,000 B/s), though 1 partition is"
        " on the way to it: orders-0."
    ) in told(replace(four(throttled(4)), copying=copying))


@pytest.mark.parametrize(
    ("first", "second", "partitions"),
    [
        (
            SizesSeen((TO_4,), {4: {ORDERS_0: 10}}),
            SizesSeen((TO_4,), {4: {ORDERS_0: 10}}),
            {4: (ORDERS_0,)},
        ),
        (SizesSeen((TO_4,), {4: {ORDERS_0: 10}}), SizesSeen((TO_4,), {4: {ORDERS_0: 11}}), {}),
        # Retention may take away more than comes: that is no standstill either.
        (SizesSeen((TO_4,), {4: {ORDERS_0: 10}}), SizesSeen((TO_4,), {4: {ORDERS_0: 9}}), {}),
        # The log is not there yet.
        (SizesSeen((TO_4,), {4: {}}), SizesSeen((TO_4,), {4: {}}), {4: (ORDERS_0,)}),
        (SizesSeen((TO_4,), {4: {}}), SizesSeen((TO_4,), {4: {ORDERS_0: 0}}), {}),
        # One that was finished meanwhile, or one of two that grows, and the broker goes on.
        (SizesSeen((TO_4, ALSO_TO_4), {4: {}}), SizesSeen((TO_4,), {4: {}}), {}),
        (
            SizesSeen((TO_4, ALSO_TO_4), {4: {ORDERS_0: 1, ORDERS_1: 1}}),
            SizesSeen((TO_4, ALSO_TO_4), {4: {ORDERS_0: 1, ORDERS_1: 2}}),
            {},
        ),
        # One that has come meanwhile says nothing.
        (SizesSeen((TO_4,), {4: {}}), SizesSeen((TO_4, ALSO_TO_4), {4: {}}), {4: (ORDERS_0,)}),
        # Who did not tell twice.
        (SizesSeen((TO_4,), {}), SizesSeen((TO_4,), {4: {}}), {}),
        (SizesSeen((TO_4,), {4: {}}), SizesSeen((TO_4,), {}), {}),
        (SizesSeen((), {}), SizesSeen((TO_4,), {4: {}}), {}),
    ],
)
def test_what_stands_still(
    first: SizesSeen, second: SizesSeen, partitions: dict[int, tuple[PartitionId, ...]]
) -> None:
    assert stalled(first, second) == partitions


@pytest.mark.parametrize(
    ("facts", "findings"),
    [
        (four(with_directories(1, LogDir("/a"), LogDir("/b"))), []),
        (
            four(with_directories(1, LogDir("/a", "KAFKA_STORAGE_ERROR"), LogDir("/b"))),
            [
                "problem: Broker 1 is alive, and 0 replicas have gone offline there: failed log"
                " directory /a (KAFKA_STORAGE_ERROR)."
            ],
        ),
        (
            four(partitions=(replace(partition(0), offline=(2,)),)),
            ["problem: Broker 2 is alive, and 1 replica has gone offline there."],
        ),
        # A broker that is not alive has a finding of its own.
        (
            four(partitions=(replace(partition(0, (1, 2, 5)), offline=(5,)),)),
            ["problem: Broker 5 is not alive, and 1 partition has a replica on it."],
        ),
        (
            four(with_directories(2, LogDir("/a", None, True))),
            ["warning: All log directories of broker 2 are cordoned (KIP-1066)."],
        ),
        (
            four(with_directories(2, LogDir("/a", None, True), LogDir("/b"))),
            ["note: Some log directories of broker 2 are cordoned (KIP-1066): /a."],
        ),
        (
            four(replace(healthy(3), directories_error="CLUSTER_AUTHORIZATION_FAILED")),
            ["note: Broker 3 does not report log directories: CLUSTER_AUTHORIZATION_FAILED."],
        ),
    ],
)
def test_log_directories(facts: ClusterFacts, findings: list[str]) -> None:
    assert told(facts) == findings


@pytest.mark.parametrize(
    ("partition", "eligible", "expected"),
    [
        (
            partition(0, isr=(), leader=-1),
            EligibleReplicas((2,)),
            "problem: 1 partition has no leader; broker 2 had all acknowledged records at last"
            " (KIP-966): orders-0.",
        ),
        (
            partition(0, isr=(1,), leader=-1),
            EligibleReplicas((2,)),
            "problem: 1 partition has no leader; brokers 1, 2 had all acknowledged records at last"
            " (KIP-966): orders-0.",
        ),
        (
            partition(0, isr=(), leader=-1),
            EligibleReplicas((), (3,)),
            "problem: 1 partition has no leader, and no replica that can lead without loss"
            " (KIP-966); the last one known is on broker 3: orders-0.",
        ),
        (partition(0, isr=(), leader=-1), None, "problem: 1 partition has no leader: orders-0."),
        (
            partition(0, isr=(1,)),
            EligibleReplicas((2, 3)),
            "note: 1 partition has eligible leader replicas (KIP-966) out of sync, on brokers 2,"
            " 3: orders-0.",
        ),
    ],
)
def test_eligible_leaders(
    partition: Partition, eligible: EligibleReplicas | None, expected: str
) -> None:
    known = {partition.id: eligible} if eligible else {}
    shown = told(replace(cluster(partition), eligible=known))
    assert expected in shown
    assert sum("no leader" in finding for finding in shown) <= 1


def test_where_nobody_knows_who_was_in_sync_last_the_way_back_is_the_longest_log() -> None:
    facts = cluster(partition(0, replicas=(1, 9), isr=(), leader=-1))
    (finding,) = (finding for finding in diagnose(facts) if finding.id == "no-leader")
    assert finding.change == (
        "Start broker 9. Who has no leader then either, as who was in sync last is not known any"
        " more, needs kipctl elect unclean --longest --all --dry-run."
    )
    facts = cluster(partition(0, replicas=(1, 2), isr=(), leader=-1))
    (finding,) = (finding for finding in diagnose(facts) if finding.id == "no-leader")
    assert finding.change == (
        "Their brokers are alive, and who was in sync last is not known any more: it takes kipctl"
        " elect unclean --longest --all --dry-run."
    )


def in_isr(number: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> Partition:
    return partition(number, replicas, isr, leader=isr[0] if isr else -1)


@pytest.mark.parametrize(
    ("partitions", "least", "counts"),
    [
        ((in_isr(0, (1, 2, 3)),), 2, {}),
        ((in_isr(0, (1, 2)), in_isr(1, (2, 3))), 2, {1: 1, 2: 2, 3: 1}),
        # What refuses acks=all already loses no more, unless its last replica goes.
        ((in_isr(0, (1, 2)),), 3, {}),
        ((in_isr(0, (1,)),), 2, {1: 1}),
        ((in_isr(0, ()),), 2, {}),
        ((in_isr(0, (1,), (1,)),), 1, {1: 1}),
        ((in_isr(0, (1, 2, 3)),), 3, {1: 1, 2: 1, 3: 1}),
        # min.insync.replicas is not known.
        ((in_isr(0, (1, 2)),), None, {}),
    ],
)
def test_which_broker_must_not_stop(
    partitions: tuple[Partition, ...], least: int | None, counts: dict[int, int]
) -> None:
    facts = cluster(*partitions, min_insync_replicas=least)
    assert {broker: len(ids) for broker, ids in needed_by(facts).items()} == counts
    assert may_be_needed(facts) == ({1, 2} if least is None else set())


def test_what_is_said_of_many_partitions_is_short() -> None:
    """Everything is wrong with every partition, and still three examples stand for all."""
    ids = [PartitionId(f"topic-{n // 100}", n % 100) for n in range(10_000)]
    brokers = tuple(in_rack(n, "a" if n < 4 else "b") for n in range(1, 6))
    everybody = frozenset(range(1, 6))
    partitions = tuple(
        Partition(part, (1, 2, 6), (1,) if n % 2 else (), 1 if n % 2 else -1, 7, offline=(2, 6))
        for n, part in enumerate(ids)
    )
    facts = ClusterFacts(
        Snapshot("id", tuple(broker.broker for broker in brokers), partitions),
        tuple(replace(broker, lists=everybody, throttles=RATE) for broker in brokers),
        {f"topic-{n}": TopicFacts(2, True, {FOLLOWER_REPLICAS: "*"}) for n in range(100)},
        copying=Reassignments(
            tuple(Reassignment(partition, (1, 2, 6, 3), (3,), (1,)) for partition in ids),
            stalled={3: tuple(ids)},
            looked_s=12.0,
        ),
        eligible={partition: EligibleReplicas((2,)) for partition in ids},
    )
    findings = diagnose(facts)
    assert {finding.severity for finding in findings} == set(Severity)
    assert len(findings) < 25
    for finding in findings:
        assert max(map(len, (finding.what, finding.consequence, finding.change))) < 400
    assert {broker: len(ids) for broker, ids in needed_by(facts).items()} == {1: 5_000}


REPLICAS = {ORDERS_0: (1, 2, 3)}


@pytest.fixture
def one_broker(fake: Reassigning) -> Reassigning:
    """Each is asked on a connection of its own, and all would have one address."""
    fake.brokers = (1,)
    return fake


@pytest.mark.parametrize("bytes_a_look", [0, 10])
def test_the_command_looks_twice_while_data_is_copied(
    one_broker: Reassigning, bytes_a_look: int
) -> None:
    """Of a copy that grows from one look to the next nothing is said, of one that stands it is."""
    fake = one_broker
    fake.partitions[ORDERS_0] = Held((4, 2, 3), 4, target=(4, 2, 1))
    fake.configs[ResourceType.BROKER, "1"] = {FOLLOWER_RATE: "1000"}

    def answer(asked: Asked) -> Response | bytes | None:
        if isinstance(asked.request, ListPartitionReassignmentsRequest):
            fake.bytes_each += bytes_a_look
        return fake.answer(asked)

    fake.broker.answers = answer
    shown = fake.kipctl("inspect brokers --look-again 0.1s -o json").document
    whats = [finding["what"] for finding in shown["findings"]]
    stands = (
        "Broker 1 copied nothing in 0.1 s (throttled to 1,000 B/s), though 1 partition is on"
        " the way to it: orders-0."
    )
    assert (stands in whats) == (bytes_a_look == 0)
    assert "1 partition is being reassigned: orders-0." in whats
    assert not any("throttle is still set" in what for what in whats)
    assert shown["reassignments"] == {
        "in_progress": 1,
        "error": None,
        "looked_seconds": 0.1,
        "stalled": [] if bytes_a_look else [{"broker": 1, "partitions": 1}],
    }


def test_who_changes_the_cluster_meanwhile_is_said(one_broker: Reassigning) -> None:
    with one_broker.kept.locked(Origin(("reassign", "--drain", "3"), "bob", "bastion")):
        ran = one_broker.kipctl("inspect brokers")
    assert "Changing this cluster meanwhile: kipctl reassign --drain 3" in ran.err
    assert "meanwhile" not in one_broker.kipctl("inspect brokers").err


def test_without_a_reassignment_nobody_looks_twice(one_broker: Reassigning) -> None:
    shown = one_broker.kipctl("inspect brokers -o json").document
    asked = [type(request) for request in one_broker.broker.requests()]
    assert asked.count(ListPartitionReassignmentsRequest) == 1
    assert shown["reassignments"]["looked_seconds"] == 0


def test_what_is_being_reassigned_may_be_unknown(one_broker: Reassigning) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    one_broker.stumbles[ListPartitionReassignmentsRequest] = [refused] * 9
    shown = one_broker.kipctl("inspect brokers -o json").document
    assert shown["reassignments"]["in_progress"] is None
    whats = [finding["what"] for finding in shown["findings"]]
    unknown = "What is being reassigned is not known: The cluster does not list"
    assert any(what.startswith(unknown) for what in whats)


@pytest.mark.parametrize(
    "sample",
    [
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="x"} 1',
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="1"} NaN',
        "kafka_network_requestmetrics_requests_total 1",
    ],
)
def test_metrics_that_kafka_does_not_count_so_end_it_in_two_lines(
    fake: Reassigning, sample: str
) -> None:
    with peer(saying(f"HTTP/1.1 200 OK\r\n\r\n{sample}\n".encode())) as exporter:
        ran = fake.kipctl(f"inspect brokers --metrics-url {exporter.url}", status=2)
    assert "in a way that is not Kafka's" in ran.err
    assert len(ran.err.splitlines()) == 2


def test_metrics_that_lead_nowhere_end_it_before_anything_is_asked(fake: Reassigning) -> None:
    ran = fake.kipctl("inspect brokers --metrics-url http://127.0.0.1:1/metrics", status=3)
    assert ran.out == ""
    assert {type(request) for request in fake.broker.requests()} <= {MetadataRequest}
    assert ran.err.startswith(
        "kipctl: The metrics at http://127.0.0.1:1/metrics cannot be reached: "
    )


def test_a_replica_that_is_still_copied_is_shown_as_that() -> None:
    seen = replace(
        four(partitions=(Partition(ORDERS_0, (4, 1, 2, 3), (1, 2, 3), 1, 5),)),
        copying=Reassignments((TO_4,)),
    )
    brokers = brokers_report(seen, ()).document["brokers"]
    copied = [(broker["not_in_sync"], broker["adding_replicas"]) for broker in brokers]
    assert copied == [(0, 0)] * 3 + [(0, 1)]
    shown = leaders_report(seen.snapshot, [TO_4])
    assert [broker["not_in_sync"] for broker in shown.document["brokers"]] == [0] * 4
    assert shown.tables[-1].rows[0][5] == "4 (adding), 1, 2, 3"


def test_a_replica_and_one_that_is_still_copied_are_one_replica() -> None:
    on_its_way = replace(TO_4, replicas=(4, 1), adding=(4,), removing=())
    seen = replace(
        four(partitions=(Partition(ORDERS_0, (4, 1), (1,), 1, 5),)),
        copying=Reassignments((on_its_way,)),
    )
    assert "single-replica" in [finding.id for finding in diagnose(seen)]
