"""What `inspect hints` says of brokers that no released Kafka is: drafts, and older ones."""

from pathlib import Path

import pytest
from commands import OnLab
from on_lab import Ran
from reassigning import Reassigning

from kipctl.cluster.inspect.leader_hint_check import (
    BrokerHints,
    FetchCheck,
    Verdict,
    compare_with_metadata,
    flaws,
    passes_proxy,
)
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.conform.cluster import Cluster, Leader, Loopback, Node
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.leader_hints import LeaderHint
from kipctl.protocol.produce import NodeEndpoint
from kipctl.report.hint_tables import hints_report

DRAFT = "hint in the form of KIP-951's early draft: no client reads it"


def hints(cluster: Cluster, output: str = "json") -> Ran:
    return OnLab(cluster.bootstrap_server, Path("/nowhere")).kipctl("inspect hints -o", output)


def without_fetch(partitions: int = 2, brokers: int = 2) -> Loopback:
    """A cluster that serves no Fetch."""
    cluster = Cluster({"t": partitions}, brokers)
    del cluster.versions[ApiKey.FETCH]
    return Loopback(cluster)


@pytest.fixture
def old_cluster():
    """Two brokers that speak Produce up to 9; each leads one of two partitions."""
    with without_fetch() as cluster:
        cluster.versions[ApiKey.PRODUCE] = (0, 9)
        yield cluster


def stay_behind(cluster: Cluster) -> None:
    """Metadata shows the leaders of now from now on."""
    for broker in cluster.brokers.values():
        broker.shown.update(cluster.leaders)


def test_a_draft_is_named_and_counted_apart(old_cluster):
    old_cluster.has_draft_hints = True
    shown = hints(old_cluster).document
    assert (shown["hinting"], shown["drafts"]) == (0, 2)
    first, second = shown["brokers"]
    assert {first["verdict"], second["verdict"]} == {DRAFT}
    there = old_cluster.nodes[2].port
    assert (first["asked_partition"], first["hint_leader"], first["hint_epoch"]) == ("t-1", 2, 5)
    assert first["hint_endpoint"] == f"127.0.0.1:{there}"
    assert old_cluster.records == 0
    assert (
        "0 of 2 brokers named a leader. 2 did so only in the form of KIP-951's early draft."
        in hints(old_cluster, "plain").out
    )


def test_a_broker_without_hints_is_too_old(old_cluster):
    shown = hints(old_cluster).document
    assert (shown["hinting"], shown["drafts"]) == (0, 0)
    assert {broker["verdict"] for broker in shown["brokers"]} == {"too old for hints"}
    assert {broker["hint_leader"] for broker in shown["brokers"]} == {None}


def test_the_form_that_was_adopted_is_no_draft():
    with without_fetch() as cluster:
        cluster.has_draft_hints = True
        shown = hints(cluster).document
    assert (shown["hinting"], shown["drafts"]) == (2, 0)
    assert {broker["verdict"] for broker in shown["brokers"]} == {"hint agrees with Metadata"}


def test_metadata_that_is_behind_a_move_is_asked_again():
    """As just after a rotation: brokers know of it before the Metadata of the one that is asked."""
    with without_fetch() as cluster:
        stay_behind(cluster)
        cluster.move(("t", 0), Leader(2, 6))
        cluster.move(("t", 1), Leader(1, 6))

        def catch_up() -> None:
            if sum(call.api == ApiKey.METADATA for call in cluster.exchanges) >= 6:
                for broker in cluster.brokers.values():
                    broker.shown.maps[0].clear()

        cluster.before = catch_up
        shown = hints(cluster).document
    assert shown["hinting"] == 2
    assert {broker["verdict"] for broker in shown["brokers"]} == {"hint agrees with Metadata"}
    assert [broker["asked_partition"] for broker in shown["brokers"]] == ["t-0", "t-1"]


@pytest.mark.usefixtures("clock")
def test_metadata_that_stays_behind_is_named():
    with without_fetch(partitions=1, brokers=3) as cluster:
        stay_behind(cluster)
        cluster.move(("t", 0), Leader(2, 6))
        shown = hints(cluster).document
        port = cluster.nodes[1].port
    verdicts = [broker["verdict"] for broker in shown["brokers"]]
    assert verdicts == [
        "no partition is led elsewhere: not asked",
        "answered otherwise",
        "hint differs from Metadata",
    ]
    assert [broker["detail"] for broker in shown["brokers"]] == [
        None,
        "CORRUPT_MESSAGE",
        f"Metadata: 1 epoch 5 127.0.0.1:{port}",
    ]


REPLICAS = {PartitionId("t", 0): (1, 2)}


def test_without_a_topic_or_led_by_one_alone_no_broker_can_be_asked(fake: Reassigning) -> None:
    fake.broker.versions = {**fake.broker.versions, 0: (0, 13), 1: (4, 18)}
    fake.brokers = (1,)
    assert fake.kipctl("inspect hints").out.splitlines()[0] == (
        "No broker could be asked: it takes a partition that another broker leads."
    )
    fake.partitions = {}
    assert fake.kipctl("inspect hints").out.splitlines()[0] == (
        "No broker could be asked, as no topic is shown apart from internal ones:"
        " there is none, or this user may not see it."
    )


def test_without_racks_there_is_no_replica_to_choose(fake: Reassigning) -> None:
    ran = fake.kipctl("inspect replica-selection", status=4)
    assert ran.out == ""
    assert "No broker of the cluster has a rack" in ran.err


SHOWN = Snapshot(
    "c",
    tuple(Broker(number, f"b{number}", 9092, None) for number in (1, 2)),
    (Partition(PartitionId("t", 0), leader=2, leader_epoch=6, replicas=(1, 2), isr=(1, 2)),),
)


@pytest.mark.parametrize(
    ("hint", "verdict", "detail"),
    [
        ((2, 6, "b2:9092"), Verdict.AGREES, ""),
        ((2, 6, None), Verdict.NO_ENDPOINT, ""),
        ((-1, -1, None), Verdict.NO_HINT, ""),
        ((1, 7, "b1:9092"), Verdict.DIFFERS, "Metadata: 2 epoch 6 b2:9092"),
        # A router gives its own.
        ((2, 6, "b1:9092"), Verdict.OTHER_ENDPOINT, "Metadata: b2:9092; b1:9092 is broker 1"),
        (
            (2, 6, "internal:19092"),
            Verdict.OTHER_ENDPOINT,
            "Metadata: b2:9092; does a proxy rewrite Metadata alone?",
        ),
    ],
)
def test_a_hint_is_held_against_metadata_of_the_same_listener(
    hint: tuple[int, int, str | None], verdict: Verdict, detail: str
) -> None:
    leader, epoch, address = hint
    endpoint = None
    if address is not None:
        host, _, port = address.partition(":")
        endpoint = NodeEndpoint(node_id=leader, host=host, port=int(port))
    judged = compare_with_metadata(LeaderHint(leader, epoch, endpoint), SHOWN, PartitionId("t", 0))
    assert (judged[0], judged[2]) == (verdict, detail)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([(Verdict.AGREES, Verdict.AGREES), (Verdict.AGREES, Verdict.NOT_ASKED)], []),
        # This user may not write; a Fetch tells.
        ([(Verdict.NO_RIGHT, Verdict.AGREES)], []),
        ([(Verdict.NOT_ASKED, Verdict.NOT_ASKED)], ["no broker could be asked"]),
        ([(Verdict.AGREES, Verdict.NO_HINT)], ["broker 0: no hint"]),
        (
            [(Verdict.AGREES, Verdict.AGREES), (Verdict.OTHER_ENDPOINT, Verdict.AGREES)],
            ["broker 1: hint with another endpoint than Metadata's"],
        ),
    ],
)
def test_hints_are_required_of_every_broker_that_could_be_asked(
    verdicts: list[tuple[Verdict, Verdict]], expected: list[str]
) -> None:
    checked = [
        BrokerHints(Broker(number, "b", 9092, None), produce, fetched=FetchCheck(fetch))
        for number, (produce, fetch) in enumerate(verdicts)
    ]
    assert flaws(checked) == expected


def test_requiring_them_ends_with_a_status_of_its_own(old_cluster):
    ran = OnLab(old_cluster.bootstrap_server, Path("/nowhere")).kipctl(
        "inspect hints --require", status=7
    )
    assert "too old for hints" in ran.out
    assert "Clients cannot follow the hints of every broker: broker 1: too old" in ran.err


def test_what_rewrites_metadata_alone_is_said_first_and_no_hint_of_it_is_required(
    tmp_path: Path,
) -> None:
    """As behind a proxy that shows its own addresses, and hands the brokers' hints on as they are:
    here Metadata says 127.0.0.1 and the hints localhost."""
    with without_fetch() as cluster:
        for broker in cluster.brokers.values():
            broker.endpoints.update(
                {id: Node(id, "localhost", node.port) for id, node in cluster.nodes.items()}
            )
        shown = hints(cluster).document
        ran = OnLab(cluster.bootstrap_server, tmp_path).kipctl("inspect hints --require", status=7)
    assert (shown["hinting"], shown["agreeing"], shown["past_proxy"]) == (2, 0, True)
    first, second = ran.out.splitlines()[:2]
    assert first.startswith("2 of 2 brokers named a leader, none as Metadata has it.")
    assert second.strip().startswith("Hints lead past a proxy:")
    assert "hint with another endpoint than Metadata's" in ran.err


@pytest.mark.parametrize(
    ("second_says", "agrees", "passes"),
    [
        ((2, 6, "proxied:1"), (False, False), True),
        ((2, 6, "b2:9092"), (False, True), False),
        ((2, 6, "b1:9092"), (False, False), False),  # a router, or a hint that is wrong
        ((1, 7, "proxied:1"), (False, False), False),
        (None, (False, False), True),
    ],
)
def test_a_proxy_is_passed_where_every_hint_names_metadatas_leader_at_an_address_of_no_broker(
    second_says: tuple[int, int, str] | None, agrees: tuple[bool, bool], passes: bool
) -> None:
    def answer(broker: Broker, says: tuple[int, int, str] | None) -> BrokerHints:
        if says is None:
            return BrokerHints(broker, Verdict.NOT_ASKED)
        leader, epoch, address = says
        host, _, port = address.partition(":")
        hint = LeaderHint(leader, epoch, NodeEndpoint(node_id=leader, host=host, port=int(port)))
        verdict, hint_told, detail = compare_with_metadata(hint, SHOWN, PartitionId("t", 0))
        return BrokerHints(broker, verdict, hint=hint_told, detail=detail)

    first, second = SHOWN.brokers
    checked = [answer(first, (2, 6, "elsewhere:1")), answer(second, second_says)]
    assert tuple(broker.agrees for broker in checked) == agrees
    assert passes_proxy(checked) is passes


@pytest.mark.parametrize(("second", "is_suggested"), [("UNREACHABLE", True), ("AGREES", False)])
def test_a_map_is_suggested_where_no_broker_can_be_reached(second: str, is_suggested: bool) -> None:
    checked = tuple(
        BrokerHints(Broker(number, f"k{number}.svc", 9092, None), verdict)
        for number, verdict in enumerate((Verdict.UNREACHABLE, Verdict[second]), 1)
    )
    said = hints_report(checked, True, Address("127.0.0.1", 19092)).closing
    assert any("No broker can be reached" in str(line) for line in said) is is_suggested
