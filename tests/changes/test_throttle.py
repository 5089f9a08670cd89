"""Throttles without a cluster: what is set, what is put back, and what is left of others."""

import json

import pytest

from kipctl.changes import throttle
from kipctl.changes.plans.plan import Move
from kipctl.changes.throttle import (
    BROKER,
    TOPIC,
    Change,
    NotRestored,
    Setting,
    Throttle,
    WayBack,
    read_throttle,
    require_restored,
    throttle_changes,
    wanted_settings,
    way_back,
    with_replicas,
)
from kipctl.cluster.snapshot import PartitionId
from kipctl.cluster.throttle_configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from kipctl.errors import PartlyDoneError, UsageError
from kipctl.protocol.metadata import MetadataResponseBroker
from kipctl.transport.request import BrokerConnection, Cluster

MOVES = (
    Move(PartitionId("t", 0), (1, 2), (3, 2), 1),
    Move(PartitionId("t", 1), (1, 2), (2, 1), 1),
    Move(PartitionId("t", 2), (1,), (1, 9), 1),
)


def test_leaders_are_throttled_where_replicas_are_and_followers_where_they_come() -> None:
    wanted = wanted_settings(MOVES, 5, alive=(1, 2, 3))
    assert wanted == {
        Setting(TOPIC, "t", LEADER_REPLICAS): "0:1,0:2,2:1",
        Setting(TOPIC, "t", FOLLOWER_REPLICAS): "0:3,2:9",
        **{Setting(BROKER, b, c): "5" for b in "123" for c in (LEADER_RATE, FOLLOWER_RATE)},
    }
    assert wanted_settings(MOVES[1:2], 5, alive=(1, 2, 3)) == {}
    with pytest.raises(UsageError, match="nothing through"):
        wanted_settings(MOVES, 0, alive=(1,))


@pytest.mark.parametrize(
    ("value", "added", "expected"),
    [
        (None, "0:1,0:2", "0:1,0:2"),
        ("", "0:1", "0:1"),
        ("0:2,5:1", "0:1,0:2", "0:2,5:1,0:1"),
        ("*", "0:1", "*"),
    ],
)
def test_replicas_throttled_already_stay_so(value: str | None, added: str, expected: str) -> None:
    assert with_replicas(value, added) == expected


def test_what_is_as_wanted_is_no_change() -> None:
    rate, replicas = Setting(BROKER, "1", LEADER_RATE), Setting(TOPIC, "t", LEADER_REPLICAS)
    assert throttle_changes({rate: "5", replicas: "0:1"}, {rate: "5", replicas: "*"}).changes == ()
    # Nor is what somebody else has listed of a topic.
    assert throttle_changes({replicas: "*"}, {replicas: "0:1"}, listed=["t"]).changes == ()
    assert throttle_changes({replicas: "*"}, {replicas: None}, listed=["t"]).changes
    changed = throttle_changes({rate: "5", replicas: "0:1"}, {rate: "7", replicas: None})
    assert changed.changes == (Change(rate, "7", "5"), Change(replicas, None, "0:1"))
    assert read_throttle(json.loads(json.dumps(changed.document()))) == changed


@pytest.mark.parametrize("document", [None, {}, {"changes": 1}, {"changes": [{"kind": "x"}]}])
def test_a_damaged_description_is_refused(document: object) -> None:
    with pytest.raises(UsageError, match="damaged"):
        read_throttle(document)


def test_brokers_are_looked_at_over_connections_that_the_change_does_not_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is late, or was being asked at Ctrl-C, is asked still while what was set is removed:
    a connection takes one request at a time."""
    over = []

    def read(connection: BrokerConnection, _: object) -> dict[Setting, str | None]:
        over.append(connection)
        return {rate: "5"}

    rate = Setting(BROKER, "1", LEADER_RATE)
    cluster = Cluster("127.0.0.1:1")
    cluster._nodes = {1: MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)}
    monkeypatch.setattr(throttle, "read_group", read)
    monkeypatch.setattr(throttle, "write", lambda *_: ())
    throttle.set_throttle(cluster, Throttle((Change(rate, None, "5"),)))
    assert [connection.address for connection in over] == [cluster.broker(1).address]
    assert cluster.broker(1) not in over


def test_a_throttle_that_stays_is_named_with_the_command_that_removes_it() -> None:
    require_restored(())
    with pytest.raises(PartlyDoneError, match=r"STILL SET.*broker 3: it is down") as error:
        require_restored([NotRestored(Setting(BROKER, "3", LEADER_RATE), "it is down.")])
    assert error.value.next_step == "Remove it: kipctl changes clear-throttles"
    away = NotRestored(Setting(BROKER, "4", LEADER_RATE), "it is not in Metadata.", True)
    with pytest.raises(PartlyDoneError) as error:
        require_restored([away])
    assert error.value.next_step == (
        "When broker 4 is back: kipctl changes clear-throttles. If it is gone for good, forget"
        " its throttle: kipctl changes clear-throttles --force"
    )
    with pytest.raises(PartlyDoneError) as error:
        require_restored([away], is_forgotten=True)
    assert error.value.next_step == ("When broker 4 is back: kipctl changes clear-throttles --all")
    assert read_throttle(Throttle(()).document()) == Throttle(())


def test_what_others_have_set_and_nobody_needs_is_taken_off_by_name() -> None:
    setting = Setting(BROKER, "3", LEADER_RATE)
    with pytest.raises(PartlyDoneError) as foreign:
        require_restored(
            [NotRestored(setting, "somebody else has set it to 9", is_set_by_other=True)]
        )
    assert foreign.value.next_step == "Remove it: kipctl changes clear-throttles --all"


RATE_1, RATE_2 = Setting(BROKER, "1", LEADER_RATE), Setting(BROKER, "2", LEADER_RATE)
LIST = Setting(TOPIC, "t", FOLLOWER_REPLICAS)
ADAPTED = Throttle((Change(RATE_1, None, "9", "8"),))


@pytest.mark.parametrize(
    ("change", "now", "kept", "busy", "expected"),
    [
        (Change(RATE_1, None, "5"), "5", (), (), WayBack(RATE_1, None)),
        (Change(RATE_1, "7", "5"), "5", (), (), WayBack(RATE_1, "7")),
        # What was set just before may still be shown, and what was before that.
        (Change(RATE_1, "7", "5", "4"), "4", (), (), WayBack(RATE_1, "7")),
        (Change(RATE_1, "7", "5"), "7", (), (), WayBack(RATE_1, "7")),
        # A rate of a reassignment that has ended is not set again; while it goes on it is.
        (
            Change(RATE_1, "7000000", "5", of_another=True),
            "5",
            (),
            (),
            WayBack(
                RATE_1,
                said=f"{RATE_1} was 7.0 MB/s, of a reassignment that has ended since: it is not"
                " set again.",
            ),
        ),
        (Change(RATE_1, "7", "5", of_another=True), "5", (), (1,), WayBack(RATE_1, "7")),
        (Change(RATE_1, "7", "5", of_another=True), "5", (), None, WayBack(RATE_1, "7")),
        # Somebody else uses it now, or has left it.
        (
            Change(RATE_1, "7", "5"),
            "6",
            (),
            (1,),
            WayBack(
                RATE_1,
                is_left=True,
                said="somebody else has set it to 6 B/s, and data is still copied there: it stays",
            ),
        ),
        (
            Change(RATE_1, "7", "5"),
            "6",
            (),
            (2,),
            WayBack(
                RATE_1,
                is_left=True,
                said="somebody else has set it to 6 B/s",
                is_left_over=True,
            ),
        ),
        # Somebody has taken it off already.
        (Change(RATE_1, "7", "5"), None, (), (), WayBack(RATE_1, is_left=True)),
        (Change(RATE_1, None, "5"), None, (), (), WayBack(RATE_1, None)),
        # Another throttle of this journal holds it: under it it gets its rate, and is left to it.
        (Change(RATE_1, None, "5"), "5", (ADAPTED,), (), WayBack(RATE_1, "9")),
        (Change(RATE_1, None, "5"), "9", (ADAPTED,), (), WayBack(RATE_1, is_left=True)),
        (Change(RATE_1, None, "5"), "8", (ADAPTED,), (), WayBack(RATE_1, is_left=True)),
        # Of a list what was added is taken out, whatever others have added since.
        (Change(LIST, None, "0:1,0:2"), "0:1,0:2", (), (), WayBack(LIST, None)),
        (Change(LIST, "3:3", "3:3,0:1"), "3:3,0:1", (), (), WayBack(LIST, "3:3")),
        (Change(LIST, None, "0:1"), "0:1,5:5", (), (), WayBack(LIST, "5:5")),
        (Change(LIST, "3:3", "3:3,0:1"), None, (), (), WayBack(LIST, is_left=True)),
        (
            Change(LIST, None, "0:1,0:2"),
            "0:1,0:2",
            (Throttle((Change(LIST, None, "0:2"),)),),
            (),
            WayBack(LIST, "0:2"),
        ),
    ],
)
def test_what_a_setting_is_put_back_to(
    change: Change,
    now: str | None,
    kept: tuple[Throttle, ...],
    busy: tuple[int, ...] | None,
    expected: WayBack,
) -> None:
    assert way_back(change, now, kept, busy) == expected


def test_what_was_before_an_own_throttle_is_before_the_next_one_too() -> None:
    """And a rate that a reassignment of others uses now is theirs."""
    made = throttle_changes(
        {RATE_1: "5", RATE_2: "5"}, {RATE_1: "9", RATE_2: "7"}, (ADAPTED,), busy=(2,)
    )
    assert made.changes == (Change(RATE_1, None, "5"), Change(RATE_2, "7", "5", of_another=True))
    # It holds what another of the journal has set alike, too: either may end first.
    assert throttle_changes({RATE_1: "9"}, {RATE_1: "9"}, (ADAPTED,)).changes == (
        Change(RATE_1, None, "9"),
    )
    assert read_throttle(json.loads(json.dumps(made.document()))) == made
