"""Who leads, as a client believes it: each rule of KIP-951 by table, and when a retry may go."""

import pytest

from kipctl.probe.backoff import Attempts, Backoff, retry_backoff
from kipctl.probe.leadership import (
    ClientPartition,
    KnownLeader,
    Leader,
    LeaderDiscovery,
    Leadership,
    Node,
)
from kipctl.protocol.leader_hints import LeaderHint
from kipctl.protocol.message import ZERO_UUID
from kipctl.protocol.produce import NodeEndpoint
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.codes import Decision
from kipctl.transport.access import parse_bootstrap_servers

KIP951, REFRESH, BASELINE = LeaderDiscovery
ONE, TWO, THREE = (Node(id, "localhost", 9000 + id, f"rack-{id}") for id in (1, 2, 3))
TWO_ELSEWHERE = Node(2, "localhost", 9992)
P, Q = "partition P", "partition Q"
LED_BY_ONE = Leader(1, 5)


def leadership(discovery: LeaderDiscovery = KIP951, leader: Leader = LED_BY_ONE) -> Leadership[str]:
    """Knows brokers 1 and 2; P is led by 1 in epoch 5 unless said otherwise."""
    known = Leadership[str](discovery)
    known.apply_metadata([ONE, TWO], {P: leader})
    return known


def a_hint(leader: Leader, at: Node | None = None) -> LeaderHint:
    """A hint at this leader, which listens there."""
    endpoint = NodeEndpoint(at.id, at.host, at.port, at.rack) if at else None
    return LeaderHint(leader.id, leader.epoch, endpoint)


@pytest.mark.parametrize(
    ("hint", "decision", "leader"),
    [
        (a_hint(Leader(2, 6), TWO), Decision.FOLLOWED, Leader(2, 6)),
        # An endpoint may be missing when the node is known.
        (a_hint(Leader(2, 6)), Decision.FOLLOWED, Leader(2, 6)),
        (a_hint(Leader(2, 900)), Decision.FOLLOWED, Leader(2, 900)),
        # The same leader in a newer epoch: elected again.
        (a_hint(Leader(1, 6), ONE), Decision.FOLLOWED, Leader(1, 6)),
        # A node of which Metadata never told is reached by its endpoint.
        (a_hint(Leader(3, 6), THREE), Decision.FOLLOWED, Leader(3, 6)),
        (a_hint(Leader(1, 5)), Decision.KNOWN, Leader(1, 5)),
        (a_hint(Leader(2, 5), TWO), Decision.SAME_EPOCH, Leader(1, 5)),
        (a_hint(Leader(2, 4), TWO), Decision.STALE, Leader(1, 5)),
        (a_hint(Leader(3, 6)), Decision.UNKNOWN_NODE, Leader(1, 5)),
        # The endpoint of another node does not help.
        (a_hint(Leader(3, 6), TWO), Decision.UNKNOWN_NODE, Leader(1, 5)),
        (a_hint(Leader(-1, 6)), Decision.ABSENT, Leader(1, 5)),
        (a_hint(Leader(2, -1), TWO), Decision.ABSENT, Leader(1, 5)),
        (a_hint(Leader(-1, -1)), Decision.ABSENT, Leader(1, 5)),
    ],
)
def test_a_hint_is_followed_only_to_a_newer_epoch_at_a_node_that_can_be_reached(
    hint: LeaderHint, decision: Decision, leader: Leader
) -> None:
    known = leadership()
    assert known.apply_hint(P, hint) is decision
    assert known.leader(P) == leader
    assert known.epoch(P) == leader.epoch


@pytest.mark.parametrize("discovery", [REFRESH, BASELINE])
def test_only_kip951_looks_at_hints(discovery: LeaderDiscovery) -> None:
    known = leadership(discovery)
    assert known.apply_hint(P, a_hint(Leader(3, 6), THREE)) is Decision.IGNORED
    assert known.apply_hint(P, a_hint(Leader(2, 1))) is Decision.IGNORED
    assert known.apply_hint(P, a_hint(Leader(-1, -1))) is Decision.ABSENT
    assert known.leader(P) == Leader(1, 5)
    assert set(known.nodes) == {1, 2}


def test_a_hint_is_followed_where_no_leader_or_no_epoch_is_known_yet() -> None:
    known = leadership()
    assert known.leader(Q) is None
    assert known.epoch(Q) == -1
    assert known.apply_hint(Q, a_hint(Leader(2, 0))) is Decision.FOLLOWED
    assert known.leader(Q) == Leader(2, 0)
    old_metadata = leadership(leader=Leader(1, -1))
    assert old_metadata.apply_hint(P, a_hint(Leader(2, 0))) is Decision.FOLLOWED


def test_the_endpoint_of_a_hint_overrides_the_node_known_and_others_stay() -> None:
    known = leadership()
    known.apply_hint(P, a_hint(Leader(2, 6), TWO_ELSEWHERE))
    assert known.nodes == {1: ONE, 2: TWO_ELSEWHERE}
    elsewhere = Node(1, ONE.host, ONE.port, "another-rack")
    known.apply_hint(P, a_hint(Leader(1, 7), elsewhere))
    assert known.nodes[1] == elsewhere


def test_hints_that_were_followed_to_another_address_than_metadatas_are_counted() -> None:
    known = leadership()
    known.apply_hint(P, a_hint(Leader(2, 6), TWO))
    assert not known.hinted_elsewhere
    known.apply_hint(P, a_hint(Leader(2, 7), TWO_ELSEWHERE))
    known.apply_hint(P, a_hint(Leader(2, 7), TWO_ELSEWHERE))  # known already
    known.apply_hint(P, a_hint(Leader(2, 8), TWO_ELSEWHERE))
    known.apply_hint(Q, a_hint(Leader(3, 8), THREE))  # Metadata has no other address of it
    assert known.hinted_elsewhere == {"broker 2 at localhost:9992, not localhost:9002": 2}
    known.apply_metadata([ONE, TWO_ELSEWHERE], {})  # it is there now
    known.apply_hint(P, a_hint(Leader(2, 9), TWO_ELSEWHERE))
    assert known.hinted_elsewhere.total() == 2


@pytest.mark.parametrize(
    "hint", [a_hint(Leader(2, 5), TWO_ELSEWHERE), a_hint(Leader(3, 6), TWO_ELSEWHERE)]
)
def test_the_endpoint_of_a_hint_that_is_not_followed_overrides_nothing(hint: LeaderHint) -> None:
    known = leadership()
    known.apply_hint(P, hint)
    assert known.nodes == {1: ONE, 2: TWO}


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        (Leader(1, 5), False),
        (Leader(2, 5), True),
        (Leader(2, 6), True),
        (Leader(-1, 6), True),
        (Leader(2, 4), False),
        (Leader(-1, 4), False),
        # Brokers before Metadata 7 tell no epoch: then the answer is all there is.
        (Leader(2, -1), True),
    ],
)
def test_metadata_older_than_the_epoch_known_changes_nothing(offered: Leader, taken: bool) -> None:
    known = leadership()
    assert known.apply_metadata([ONE, TWO], {P: offered}) == ([P] if taken else [])
    expected = offered if taken else Leader(1, 5)
    assert known.leader(P) == (None if expected.id == -1 else expected)
    assert known.epoch(P) == expected.epoch


def test_metadata_that_was_overtaken_by_a_hint_never_undoes_it() -> None:
    known = leadership()
    known.apply_hint(P, a_hint(Leader(3, 6), THREE))
    assert known.apply_metadata([ONE, TWO], {P: Leader(1, 5)}) == []
    assert known.leader(P) == Leader(3, 6)
    assert known.nodes[3] == THREE
    # Once Metadata has caught up it is the authority again, also about where the node is.
    three = Node(3, "localhost", 9993)
    assert known.apply_metadata([ONE, TWO, three], {P: Leader(3, 6)}) == []
    assert known.nodes[3] == three


def test_a_node_that_metadata_no_longer_shows_leads_nothing() -> None:
    known = leadership(leader=Leader(2, 5))
    known.apply_metadata([ONE], {P: Leader(2, 5)})
    assert known.leader(P) is None
    assert known.epoch(P) == 5


def test_a_leader_that_cannot_be_reached_is_lacking_whatever_old_metadata_names_instead() -> None:
    known = leadership(leader=Leader(2, 5))
    assert not known.any_without_leader([P])
    known.apply_metadata([ONE], {P: Leader(2, 5)})
    assert known.any_without_leader([P])
    known.apply_metadata([ONE], {P: Leader(1, 4)})  # not taken: it is older
    assert known.any_without_leader([P])
    known.apply_metadata([ONE, TWO], {P: Leader(1, 4)})
    assert not known.any_without_leader([P])
    assert known.any_without_leader([Q])


def test_an_answer_without_nodes_is_none() -> None:
    leadership = Leadership[str](LeaderDiscovery.KIP951)
    node = Node(1, "h", 1)
    leadership.apply_metadata([node], {"p": Leader(1, 5)})
    assert leadership.apply_metadata([], {"p": Leader(2, 6)}) == []
    assert (leadership.leader("p"), leadership.nodes) == (Leader(1, 5), {1: node})


def test_metadata_tells_whose_leader_can_be_reached_again() -> None:
    leadership = Leadership[str](LeaderDiscovery.KIP951)
    broker_1, broker_2 = Node(1, "h", 1), Node(2, "h", 2)
    leaders = {"p": Leader(1, 5), "q": Leader(2, 5)}
    leadership.apply_metadata([broker_1, broker_2], leaders)
    assert leadership.apply_metadata([broker_2], {}) == []
    assert leadership.leader("p") is None
    assert leadership.apply_metadata([broker_1, broker_2], leaders) == ["p"]


def test_metadata_tells_which_partitions_changed() -> None:
    known = leadership()
    leaders = {P: Leader(1, 5), Q: Leader(2, 3)}
    assert known.apply_metadata([ONE, TWO], leaders) == [Q]
    assert known.apply_metadata([ONE, TWO], leaders) == []


# --- attempts and backoff ---

DRAWN_US = 93_000


def sent_to(*epochs: int) -> Attempts:
    attempts = Attempts()
    for epoch in epochs:
        attempts.sent(epoch)
    return attempts


@pytest.mark.parametrize(
    ("discovery", "epochs_sent_to", "epoch_known", "waits"),
    [
        (KIP951, [5], 6, False),
        (KIP951, [5], 5, True),
        (KIP951, [5, 6], 6, True),
        (KIP951, [5, 6], 7, False),
        # Without epochs it cannot be known that anything changed.
        (KIP951, [-1], -1, True),
        (KIP951, [-1], 0, False),
        (REFRESH, [5], 6, False),
        (REFRESH, [5], 5, True),
        (BASELINE, [5], 6, True),
        (BASELINE, [5], 5, True),
    ],
)
def test_a_retry_skips_the_backoff_only_to_a_newer_epoch_and_never_in_baseline(
    discovery: LeaderDiscovery, epochs_sent_to: list[int], epoch_known: int, waits: bool
) -> None:
    attempts = sent_to(*epochs_sent_to)
    assert attempts.backoff_us(epoch_known, DRAWN_US, discovery is BASELINE) == (
        DRAWN_US if waits else 0
    )


@pytest.mark.parametrize(
    "epochs",
    # What is known may also fall back (a new node, no Metadata): that is no newer epoch.
    [[5], [5, 5], [5, 6], [5, 5, 6], [5, 6, 6, 6], [6, 5], [-1, -1]],
)
def test_attempts_are_counted_and_the_newest_epoch_is_kept(epochs: list[int]) -> None:
    attempts = sent_to(*epochs)
    assert attempts.count == len(epochs)
    assert attempts.epoch == max(epochs)


def test_the_backoff_doubles_up_to_its_limit() -> None:
    backoff = Backoff(100_000, 1_000_000, jitter=0)
    waits = [backoff.wait_us(retries, 0.5) for retries in range(7)]
    assert waits == [100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000, 1_000_000]
    assert backoff.wait_us(1 << 31, 0.5) == 1_000_000


@pytest.mark.parametrize(
    ("retries", "luck", "wait"),
    [
        (0, 0.0, 80_000),
        (0, 0.5, 100_000),
        (0, 0.75, 110_000),
        (2, 0.0, 320_000),
        (9, 0.0, 800_000),
        # The jitter never takes it over the limit (Java's ExponentialBackoff).
        (9, 0.75, 1_000_000),
    ],
)
def test_the_jitter_is_a_fifth_both_ways(retries: int, luck: float, wait: int) -> None:
    assert Backoff(100_000, 1_000_000).wait_us(retries, luck) == wait


@pytest.mark.parametrize(
    ("discovery", "initial_us", "limit_us", "waits"),
    [
        (KIP951, 100_000, 1_000_000, [80_000, 160_000, 320_000, 640_000, 800_000]),
        (REFRESH, 100_000, 1_000_000, [80_000, 160_000, 320_000, 640_000, 800_000]),
        # Clients before KIP-951 neither doubled nor jittered it.
        (BASELINE, 100_000, 1_000_000, [100_000] * 5),
        # A backoff above its limit is the limit, always (Java warns of it and does so).
        (KIP951, 100_000, 50_000, [50_000] * 5),
        (KIP951, 100_000, 100_000, [100_000] * 5),
        (BASELINE, 100_000, 50_000, [100_000] * 5),
        (KIP951, 0, 1_000_000, [0] * 5),
    ],
)
def test_each_arm_has_the_backoff_of_its_time(
    discovery: LeaderDiscovery, initial_us: int, limit_us: int, waits: list[int]
) -> None:
    backoff = retry_backoff(discovery, initial_us, limit_us)
    assert [backoff.wait_us(retries, 0.0) for retries in range(5)] == waits


def test_an_endpoint_is_written_as_it_can_be_read_again() -> None:
    for host, written in (("::1", "[::1]:9092"), ("b1.example", "b1.example:9092")):
        hint = a_hint(Leader(1, 6), Node(1, host, 9092))
        assert hint.address == written
        assert str(*parse_bootstrap_servers(written)) == written


def test_epochs_of_a_topic_made_anew_start_again() -> None:
    attempts = Attempts()
    attempts.sent(5)
    attempts.sent(3)
    assert (attempts.count, attempts.epoch, attempts.generation) == (2, 5, 0)
    attempts.sent(0, generation=1)
    assert (attempts.count, attempts.epoch, attempts.generation) == (3, 0, 1)
    attempts.sent_to(2, generation=1)
    attempts.sent_to(1, generation=1)
    assert (attempts.count, attempts.epoch) == (3, 2)
    assert attempts.backoff_us(known_epoch=3, drawn_us=100, always=False) == 0


@pytest.mark.parametrize(
    ("known", "sent", "unblocked_us", "waited_for_us"),
    [
        ([], [], 0, 0),
        ([(4, 10)], [], 0, 10),  # a retry to the same epoch
        ([(4, 10), (5, 200)], [], 0, 200),
        ([(4, 10), (5, 90), (6, 200)], [95], 95, 200),  # the way to epoch 5 was lost again
        ([(4, 10), (5, 90), (6, 200)], [95], 250, 90),  # it was held up until after all of them
        ([(4, 10), (5, 90), (6, 200)], [95], 150, 200),
        ([(4, 10), (5, 90), (5, 200)], [95], 300, 90),
        # There was none at epoch 5, or no way to it: those ahead waited for the next one, too.
        ([(4, 10), (5, 90), (6, 200)], [], 250, 200),
        ([(4, 10), (5, 90), (6, 200), (7, 300)], [210], 350, 200),
    ],
)
def test_a_retry_waits_for_the_first_newer_leader_that_others_ahead_of_it_went_to(
    known: list[tuple[int, int]], sent: list[int], unblocked_us: int, waited_for_us: int
) -> None:
    partition = ClientPartition(Topic("t", ZERO_UUID), 0, 0)
    for epoch, at_us in known:
        partition.unblocked_us = max((us for us in (20, *sent) if us < at_us), default=0)
        partition.learn(KnownLeader(epoch, 0, at_us, None))
    assert partition.leader_waited_for(4, 0, unblocked_us).known_us == waited_for_us
    of_topic_anew = partition.leader_waited_for(4, 1, unblocked_us)
    assert of_topic_anew.known_us == (known[-1][1] if known else 0)
