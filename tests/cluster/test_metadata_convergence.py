"""Convergence by table: when every broker knows, who is waited for; and what watching costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_answers import metadata_of
from scripted_broker import Asked, ScriptedBroker

from kipctl.cluster import metadata_convergence
from kipctl.cluster.metadata_convergence import (
    DELETED,
    Availability,
    ClusterEvent,
    Convergence,
    EventKind,
    LeaderWatch,
    ShownViews,
    View,
    ViewChange,
    pause_s,
    sample_brokers,
    views_of,
)
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import (
    MetadataRequest,
)
from kipctl.transport.access import as_access

T0 = PartitionId("t", 0)
BEFORE = {T0: View(5, 1)}


def seen(broker: int, leader: int, epoch: int) -> ViewChange:
    return ViewChange(broker, T0, View(epoch, leader), time_us=1000 * broker)


def gone(broker: int) -> ViewChange:
    return ViewChange(broker, T0, DELETED, time_us=0)


def answers(broker: int) -> Availability:
    return Availability(broker, answers=True)


def silent(broker: int) -> Availability:
    return Availability(broker, answers=False)


def convergence(leader: int) -> Convergence:
    return Convergence(BEFORE, {T0: leader}, (1, 2, 3))


@pytest.mark.parametrize(
    ("news", "missing"),
    [
        ([], {T0: (1, 2, 3)}),
        ([seen(1, 2, 6)], {T0: (2, 3)}),
        ([seen(1, 2, 6), seen(2, 2, 6), seen(3, 2, 6)], {}),
        # A broker that has not heard: its answer is no news.
        ([seen(1, 2, 6), seen(2, 2, 6), answers(3)], {T0: (3,)}),
        ([answers(3), seen(1, 2, 6), seen(2, 2, 6)], {T0: (3,)}),
        # The expected leader at an older epoch is old news that looks right.
        ([seen(1, 2, 6), seen(2, 2, 6), seen(3, 2, 4)], {T0: (3,)}),
        ([seen(3, 2, 4), seen(1, 2, 6), seen(2, 2, 6)], {T0: (3,)}),
        # A newer epoch makes of those that knew brokers that are behind.
        ([seen(1, 2, 6), seen(2, 2, 6), seen(3, 2, 8)], {T0: (1, 2)}),
        # All agree on another leader: not what was expected.
        ([seen(1, 1, 6), seen(2, 1, 6), seen(3, 1, 6)], {T0: (1, 2, 3)}),
        # Nobody waits for a broker that does not answer, until it answers again.
        ([seen(1, 2, 6), seen(2, 2, 6), silent(3)], {}),
        ([seen(1, 2, 6), seen(2, 2, 6), silent(3), answers(3)], {T0: (3,)}),
        # When none answers, nothing is known.
        ([seen(1, 2, 6), silent(1), silent(2), silent(3)], {T0: ()}),
        # A partition that is deleted meanwhile is gone when all brokers have heard of it ...
        ([gone(1), gone(2), gone(3)], {}),
        ([gone(1), gone(2), silent(3)], {}),
        ([silent(3), gone(1), gone(2)], {}),
        # ... and one that a broker does not know yet, after its restart, is not.
        ([seen(1, 2, 6), seen(2, 2, 6), gone(3)], {T0: (3,)}),
        ([gone(1), gone(2), answers(3)], {T0: (1, 2, 3)}),
    ],
)
def test_all_that_answer_must_show_the_expected_leader_at_the_newest_epoch(
    news: list[ViewChange | Availability], missing: dict[PartitionId, tuple[int, ...]]
) -> None:
    waited_for = convergence(leader=2)
    for sighting in news:
        waited_for.apply(sighting)
    assert waited_for.missing() == missing
    assert waited_for.is_reached == (not missing)


def test_a_leader_that_stays_is_no_event_and_needs_no_new_epoch() -> None:
    waited_for = convergence(leader=1)
    assert [waited_for.apply(answers(broker)) for broker in (1, 2, 3)] == [None] * 3
    assert waited_for.is_reached


def test_a_newer_epoch_is_an_event() -> None:
    assert convergence(leader=2).apply(seen(3, 2, 6)) == ClusterEvent(
        EventKind.LEADER_SEEN, 3000, "t", 0, 1, 2, 6, 3
    )


def test_what_is_gone_or_silent_is_named() -> None:
    waited_for = convergence(leader=2)
    for sighting in (gone(1), gone(2), silent(3)):
        assert waited_for.apply(sighting) is None
    assert waited_for.gone() == (T0,)
    assert waited_for.silent == (3,)


def test_what_is_left_out_is_waited_for_no_more() -> None:
    waited_for = convergence(leader=2)
    waited_for.leave_out([T0, PartitionId("t", 7)])
    assert waited_for.is_reached
    assert waited_for.apply(seen(1, 2, 6)) is None


def test_an_answer_is_compared_with_the_one_before_and_with_what_is_watched_alone() -> None:
    ids = [PartitionId("t", n) for n in range(1000)]
    shown = ShownViews({partition: View(5, 1) for partition in ids[:999]})
    assert shown.news(metadata_of(*[(1, 5)] * 1000)) == []
    assert shown.news(metadata_of(*[(1, 5)] * 998, (2, 5), (2, 5))) == [(ids[998], View(5, 2))]
    assert shown.news(metadata_of(*[(1, 5)] * 998, (2, 5), (2, 5))) == []
    lost = shown.news(metadata_of(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert lost == [(partition, DELETED) for partition in ids[:999]]


def test_what_is_not_there_before_is_gone() -> None:
    snapshot = Snapshot("c", (), (Partition(T0, (2, 1), (1, 2), leader=1, leader_epoch=5),))
    other = PartitionId("other", 0)
    assert views_of(snapshot, [T0, other]) == {T0: View(5, 1), other: DELETED}


@pytest.mark.parametrize(
    ("waited_s", "took_s", "answer_bytes", "brokers", "pause"),
    [
        (0.0, 0.001, 4_500, 3, 0.01),
        (0.2, 0.001, 4_500, 3, 0.01),
        (2.0, 0.001, 4_500, 3, 0.1),
        (300.0, 0.001, 4_500, 3, 0.5),
        # A broker that is slow gets a rest.
        (0.0, 0.3, 4_500, 3, 0.3),
        # 100,000 partitions: not 4.7 MB from each of 20 brokers, back to back.
        (0.0, 0.05, 4_700_000, 20, 23.5),
    ],
)
def test_pauses_grow_with_the_time_and_the_answers(
    waited_s: float, took_s: float, answer_bytes: int, brokers: int, pause: float
) -> None:
    assert pause_s(waited_s, took_s, answer_bytes, brokers) == pytest.approx(pause)


def brokers(count: int, racks: int = 3) -> list[Broker]:
    return [Broker(id, "localhost", id, f"rack-{id % racks}") for id in range(1, count + 1)]


def test_of_many_brokers_some_of_every_rack_are_watched() -> None:
    assert [broker.id for broker in sample_brokers(brokers(7))] == [1, 2, 3, 4, 5, 6, 7]
    chosen = sample_brokers(brokers(200))
    assert len(set(chosen)) == metadata_convergence.MOST_BROKERS
    of_rack = [sum(broker.rack == f"rack-{n}" for broker in chosen) for n in range(3)]
    assert max(of_rack) - min(of_rack) <= 1
    assert sample_brokers([]) == ()


@pytest.mark.parametrize("count", [7, 20, 21, 30, 199])
def test_one_turn_after_the_other_every_broker_is_in_the_sample(count: int) -> None:
    all_of_them = brokers(count)
    seen = set()
    for turn in range(-(-count // metadata_convergence.MOST_BROKERS)):
        chosen = sample_brokers(all_of_them, turn=turn)
        assert len(set(chosen)) == min(count, metadata_convergence.MOST_BROKERS)
        seen |= set(chosen)
    assert seen == set(all_of_them)


def test_a_broker_is_asked_for_the_topics_watched_alone_at_the_pace_of_its_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paced: list[tuple[int, int]] = []

    def pace(waited_s: float, took_s: float, answer_bytes: int, brokers: int) -> float:
        paced.append((answer_bytes, brokers))
        return 0.001

    monkeypatch.setattr(metadata_convergence, "pause_s", pace)
    turn = 0

    def answer(asked: Asked) -> Response | None:
        nonlocal turn
        if not isinstance(asked.request, MetadataRequest):
            return None
        assert [topic.name for topic in asked.request.topics or ()] == ["t"]
        turn += 1
        return metadata_of(*[(1, 5) if turn < 4 else (2, 6)] * 200)

    with ScriptedBroker(answer) as scripted:
        broker = Broker(1, "127.0.0.1", scripted.port, None)
        with LeaderWatch([broker], BEFORE, as_access(scripted.address)) as following:
            assert following.news(30) == [answers(1)]
            (sighting,) = following.news(30)
    assert isinstance(sighting, ViewChange)
    assert (sighting.id, sighting.view) == (T0, View(6, 2))
    assert len(paced) >= 3
    assert all(size > 200 * 15 and broker_count == 1 for size, broker_count in paced)


def test_a_broker_that_cannot_be_reached_is_silent() -> None:
    with ScriptedBroker() as stopped:
        port = stopped.port
    broker = Broker(1, "127.0.0.1", port, None)
    with LeaderWatch([broker], BEFORE, as_access("127.0.0.1:1")) as following:
        assert following.news(30) == [silent(1)]


@given(
    st.lists(
        st.one_of(
            st.builds(Availability, st.integers(1, 3), st.booleans()),
            st.builds(
                ViewChange,
                st.integers(1, 3),
                st.just(T0),
                st.sampled_from([View(5, 1), View(6, 2), View(6, 3), View(7, 2), DELETED]),
                st.just(0),
            ),
        ),
        max_size=12,
    )
)
def test_after_any_news_those_are_missing_that_a_look_at_all_brokers_would_find(
    news: list[ViewChange | Availability],
) -> None:
    waited_for = convergence(leader=2)
    shown, heard, quiet = dict.fromkeys((1, 2, 3), View(5, 1)), set(), set()
    for sighting in news:
        waited_for.apply(sighting)
        is_there = isinstance(sighting, ViewChange) or sighting.answers
        (quiet.discard if is_there else quiet.add)(sighting.broker)
        if is_there:
            heard.add(sighting.broker)
        if isinstance(sighting, ViewChange):
            shown[sighting.broker] = sighting.view
        answering = [broker for broker in shown if broker not in quiet]
        newest = max((shown[broker] for broker in answering), default=View(5, 1))
        knows = {
            b for b in heard if shown[b] == newest and (newest.leader == 2 or newest == DELETED)
        }
        behind = tuple(broker for broker in answering if broker not in knows)
        assert waited_for.missing() == ({T0: behind} if behind or not answering else {})
        assert waited_for.is_reached == (not behind and bool(answering))
