"""Throttles without a cluster: what is set, what is put back, and what is left of others."""

import json
from typing import cast

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
    read_throttle,
    require_put_back,
    throttle_changes,
    wanted_settings,
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
from kipctl.transport.request import Cluster

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
    changed = throttle_changes({rate: "5", replicas: "0:1"}, {rate: "7", replicas: None})
    assert changed.changes == (Change(rate, "7", "5"), Change(replicas, None, "0:1"))
    assert read_throttle(json.loads(json.dumps(changed.document()))) == changed


@pytest.mark.parametrize("document", [None, {}, {"changes": 1}, {"changes": [{"kind": "x"}]}])
def test_a_damaged_description_is_refused(document: object) -> None:
    with pytest.raises(UsageError, match="damaged"):
        read_throttle(document)


def test_a_throttle_is_put_back_when_the_broker_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may show for a moment what was set before: the next change would keep that for good."""
    rate = Setting(BROKER, "1", LEADER_RATE)
    shown, written = ["5", "5", "5", None], []

    def read(cluster: object, group: list[Setting]) -> dict[Setting, str | None]:
        return {rate: shown.pop(0) if len(shown) > 1 else shown[0]}

    def write(cluster: object, values: dict[Setting, str | None]) -> tuple[()]:
        written.append(values)
        return ()

    monkeypatch.setattr(throttle, "_read_group", read)
    monkeypatch.setattr(throttle, "_write", write)
    changed = Throttle((Change(rate, None, "5"),))
    assert throttle.put_back(cast(Cluster, "cluster"), changed) == ()
    assert written == [{rate: None}]
    assert shown == [None]


def test_a_throttle_that_stays_is_named_with_the_command_that_removes_it() -> None:
    require_put_back(())
    with pytest.raises(PartlyDoneError, match=r"STILL SET.*broker 3: it is down") as error:
        require_put_back([NotRestored(Setting(BROKER, "3", LEADER_RATE), "it is down.")])
    assert "--entity-type brokers --entity-name 3 --delete-config" in error.value.next_step
    away = NotRestored(Setting(BROKER, "4", LEADER_RATE), "it is not in Metadata.", True)
    with pytest.raises(PartlyDoneError) as error:
        require_put_back([away])
    assert error.value.next_step == (
        "When broker 4 is back: kipctl changes clear-throttles. If it is gone for good, forget"
        " its throttle: kipctl changes clear-throttles --force"
    )
    with pytest.raises(PartlyDoneError) as error:
        require_put_back([away], is_forgotten=True)
    assert "--entity-name 4 --delete-config" in error.value.next_step
    assert "clear-throttles" not in error.value.next_step
    assert read_throttle(Throttle(()).document()) == Throttle(())


def test_who_could_put_it_back_is_told_how_and_what_others_have_set_is_not_taken_back() -> None:
    setting = Setting(BROKER, "3", LEADER_RATE)
    remove = "kafka-configs --alter --entity-type brokers --entity-name 3 --delete-config"
    with pytest.raises(PartlyDoneError) as refused:
        require_put_back([NotRestored(setting, "it was busy.")])
    assert refused.value.next_step.startswith(
        f"Put it back: kipctl changes clear-throttles. Or remove it: {remove}"
    )
    with pytest.raises(PartlyDoneError) as foreign:
        require_put_back(
            [NotRestored(setting, "somebody else has set it to 9", is_set_by_other=True)]
        )
    assert foreign.value.next_step.startswith(f"Remove it: {remove}")
