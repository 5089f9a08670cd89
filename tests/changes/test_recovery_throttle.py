"""`kipctl throttle`: what a broker that came back copies, without a reassignment."""

import os
import signal
from collections.abc import Callable
from copy import deepcopy

import pytest
from passing_clock import PassingClock
from reassigning import Reassigning
from scripted_broker import Asked

from kipctl.changes.execution.throttled_change import entries_with_throttles
from kipctl.cluster.reassignments import Reassignment, list_reassignments
from kipctl.cluster.snapshot import PartitionId
from kipctl.cluster.throttle_configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATES,
)
from kipctl.errors import TimedOutError
from kipctl.protocol.describe_configs import ResourceType
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.transport.request import Cluster

MB = 10**6
TOPIC, BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)
BIG = PartitionId("big", 0)
REPLICAS = {BIG: (1, 2, 3), PartitionId("small", 0): (1, 2, 3)}
LISTED = dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS), "*")


def own(fake: Reassigning) -> dict[tuple[int, str], dict[str, str]]:
    return {resource: configs for resource, configs in fake.configs.items() if configs}


def rates(fake: Reassigning) -> set[str]:
    return {fake.configs.get((BROKER, b), {}).get(c, "") for b in "1234" for c in RATES}


@pytest.fixture(autouse=True)
def comes_back(fake: Reassigning) -> None:
    """Broker 3 lacks what was written to `big`."""
    fake.partitions[BIG].isr = (1, 2)
    fake.configs = {(BROKER, "1"): {LEADER_RATE: "7"}}


def test_a_rate_is_set_shown_and_cleared(fake: Reassigning) -> None:
    before = deepcopy(own(fake))
    fake.kipctl("throttle set 3MB/s --dry-run")
    assert own(fake) == before
    ran = fake.kipctl("throttle set 3MB/s --yes")
    assert "Throttled to 3.0 MB/s." in ran.out
    assert fake.configs[TOPIC, "big"] == LISTED
    assert not fake.configs.get((TOPIC, "small"))
    assert rates(fake) == {"3000000"}
    shown = fake.kipctl("throttle show -o json").document["throttles"]
    assert {throttle["value"] for throttle in shown} == {"3000000", "*"}
    assert all("throttle set 3MB/s" in throttle["set_by"] for throttle in shown)
    assert all(throttle["is_needed"] for throttle in shown if throttle["kind"] == "topic")
    listed = fake.kipctl("changes list")
    assert "done, throttle still set" in listed.out
    assert "kipctl changes clear-throttles" in listed.out
    assert "A throttle is still set: entry" in fake.kipctl("").out
    ran = fake.kipctl("changes clear-throttles --yes", status=4)
    assert "Broker 3 catches up under them" in ran.err
    shown = fake.kipctl("throttle clear --dry-run -o json").document["settings"]
    assert {setting["value_during"] for setting in shown} == {"3000000", "*"}
    ran = fake.kipctl("throttle clear --yes -o json")
    assert ran.document["settings"] == shown
    assert "Broker 3 still copies 1 partition" in ran.err
    assert fake.kipctl("throttle clear --yes -o json").document["settings"] == []
    assert own(fake) == before
    assert "A throttle" not in fake.kipctl("").out


def test_it_is_said_to_be_set_and_removed_when_brokers_show_it(fake: Reassigning) -> None:
    """A broker hears of it after the controller: who looked at once saw no throttle, a change began
    to copy without one, and the next kept for good what was shown still."""
    fake.late_configs = 10
    fake.kipctl("throttle set 3MB/s --yes")
    shown = fake.kipctl("throttle show -o json").document["throttles"]
    assert [throttle["value"] for throttle in shown].count("3000000") == 2 * len(fake.brokers)
    fake.kipctl("throttle clear --yes")
    (left,) = fake.kipctl("throttle show -o json").document["throttles"]
    assert left["value"] == "7"


def test_another_rate_takes_the_place_of_the_first(fake: Reassigning) -> None:
    before = deepcopy(own(fake))
    fake.kipctl("throttle set 3MB/s --yes")
    fake.kipctl("throttle set 5MB/s --yes --broker 2 --broker 3")
    assert fake.configs[BROKER, "3"] == dict.fromkeys(RATES, "5000000")
    assert fake.configs[BROKER, "1"] == before[BROKER, "1"]
    assert fake.configs[TOPIC, "big"] == LISTED
    assert len(entries_with_throttles(fake.kept)) == 1
    fake.kipctl("throttle clear --yes")
    assert own(fake) == before


def test_what_others_had_set_before_is_not_said_to_be_removed(fake: Reassigning) -> None:
    before = deepcopy(own(fake))
    fake.kipctl("throttle set 3MB/s --yes")
    fake.partitions[BIG].isr = None
    ran = fake.kipctl("changes clear-throttles", typed="y\n")
    assert "Set 10 throttles as before?" in ran.err
    assert "10 of 10 throttles are as before." in ran.out
    assert own(fake) == before


def test_what_is_set_already_is_counted_too(fake: Reassigning) -> None:
    fake.configs[BROKER, "2"] = dict.fromkeys(RATES, "3000000")
    fake.configs[TOPIC, "big"] = dict(LISTED)
    ran = fake.kipctl("throttle set 3MB/s --yes")
    assert "in and out of each of 4 brokers, for replicas out of sync of 1 topic." in ran.err


def test_its_own_throttle_of_a_broker_that_is_away_is_known_to_be_its_own(
    fake: Reassigning,
) -> None:
    fake.kipctl("throttle set 3MB/s --yes")
    fake.brokers = (1, 2, 4)
    fake.partitions[BIG].isr = None
    shown = fake.kipctl("changes clear-throttles --dry-run -o json").document["throttles"]
    assert {throttle["name"] for throttle in shown} == {"1", "2", "3", "4", "big"}
    assert all("throttle set 3MB/s" in throttle["set_by"] for throttle in shown)
    shown = fake.kipctl("throttle show -o json").document["not_known"]
    assert {(throttle["name"], throttle["value"]) for throttle in shown} == {("3", "3000000")}
    said = " ".join(fake.kipctl("throttle show").out.split())
    assert "Broker 3 is away, where 2 rates may be set still, by entry" in said


def test_what_others_have_set_anew_is_removed_with_the_rest_and_not_said_to_be_set(
    fake: Reassigning,
) -> None:
    fake.kipctl("throttle set 50MB/s --yes")
    fake.partitions[BIG].isr = None
    for broker in "1234":
        fake.configs[BROKER, broker] = dict.fromkeys(RATES, "70000000")
    shown = fake.kipctl("changes clear-throttles --dry-run -o json").document["throttles"]
    assert {throttle["kind"] for throttle in shown} == {"topic"}
    shown = fake.kipctl("changes clear-throttles --all --dry-run -o json").document["throttles"]
    assert len(shown) == len({(throttle["name"], throttle["config"]) for throttle in shown}) == 10
    assert {throttle["value_before"] for throttle in shown} == {None}
    ran = fake.kipctl("changes clear-throttles --all --yes")
    assert "10 of 10 throttles are removed." in ran.out
    assert not own(fake)


def test_whose_recovery_it_waits_for_is_said_before_a_throttle_of_others_is_taken_off(
    fake: Reassigning,
) -> None:
    rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
    fake.configs = {(BROKER, "1"): {rate: "7"}, (TOPIC, "big"): {replicas: "*"}}
    fake.brokers = (1, 2, 4)
    fake.partitions[BIG].isr = None
    ran = fake.kipctl("changes clear-throttles --all --yes")
    assert "Broker 3 is away: what is lacked there will be copied unthrottled." in ran.err
    assert not any(fake.configs.values())


def test_of_what_is_set_no_more_the_entries_are_forgotten(fake: Reassigning) -> None:
    fake.kipctl("throttle set 50MB/s --yes")
    fake.partitions[BIG].isr = None
    fake.configs = {}
    ran = fake.kipctl("changes clear-throttles --yes")
    assert "Forgotten: 1 entry." in ran.out
    assert "put back" not in ran.out


def test_undo_takes_it_off(fake: Reassigning) -> None:
    before = deepcopy(own(fake))
    fake.kipctl("throttle set 3MB/s --yes")
    fake.kipctl("undo --yes")
    assert own(fake) == before
    assert fake.states() == ["undone"]


def test_where_all_is_in_sync_topics_have_to_be_named(fake: Reassigning) -> None:
    fake.partitions[BIG].isr = None
    ran = fake.kipctl("throttle set 3MB/s --yes", status=4)
    assert "Every replica is in sync" in ran.err
    fake.kipctl("throttle set 3MB/s --yes --topic small")
    assert fake.configs[TOPIC, "small"] == LISTED
    ran = fake.kipctl("throttle adapt --guard 'urp > 9' --yes", status=4)
    assert "No broker copies anything now" in ran.err


class TestAdapt:
    ADAPT = "throttle adapt --guard 'urp > 0' --begin-at 8MB/s --yes"

    @pytest.fixture
    def looks(self, fake: Reassigning) -> list[set[str]]:
        """The rates at each look at the whole cluster."""
        seen: list[set[str]] = []
        self.steps: dict[int, Callable[[], object]] = {}

        def answer(asked: Asked) -> Response | bytes | None:
            if isinstance(asked.request, MetadataRequest) and asked.request.topics is None:
                seen.append(rates(fake))
                self.steps.pop(len(seen), lambda: None)()
            return fake.answer(asked)

        assert fake.broker is not None
        fake.broker.answers = answer
        return seen

    def test_it_is_raised_while_all_is_well_and_put_back_when_all_is_in_sync(
        self, fake: Reassigning, looks: list[set[str]]
    ) -> None:
        before = deepcopy(own(fake))
        self.steps[30] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT.replace("urp > 0", "offline > 0"))
        highest = max(int(rate) for seen in looks for rate in seen if rate)
        assert highest > 30 * MB
        assert "All replicas are in sync after" in ran.out
        assert "The throttle is removed." in ran.err
        assert own(fake) == before
        assert entries_with_throttles(fake.kept) == []

    def test_a_rate_that_somebody_has_set_to_the_first_one_is_adapted_too(
        self, fake: Reassigning, looks: list[set[str]]
    ) -> None:
        for broker in fake.brokers:
            fake.configs[BROKER, str(broker)] = dict.fromkeys(RATES, "8000000")
        fake.configs[TOPIC, "big"] = dict(LISTED)
        self.steps[30] = lambda: setattr(fake.partitions[BIG], "isr", None)
        fake.kipctl(self.ADAPT.replace("urp > 0", "offline > 0"))
        assert max(int(rate) for seen in looks for rate in seen if rate) > 30 * MB
        assert rates(fake) == {"8000000"}

    def test_one_slow_answer_does_not_end_it(
        self, fake: Reassigning, looks: list[set[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = iter([TimedOutError("Broker 1 did not answer in 30 s.")])

        def listed(cluster: Cluster) -> tuple[Reassignment, ...]:
            if len(looks) > 5 and (late := next(slow, None)):
                raise late
            return list_reassignments(cluster)

        monkeypatch.setattr("kipctl.changes.adapt_throttle.list_reassignments", listed)
        self.steps[30] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT.replace("urp > 0", "offline > 0"))
        assert "All replicas are in sync after" in ran.out
        assert next(slow, None) is None

    def test_a_broker_that_is_away_is_waited_for_under_the_throttle(
        self, fake: Reassigning, looks: list[set[str]]
    ) -> None:
        before = deepcopy(own(fake))
        fake.brokers = (1, 2, 4)
        set_before_it_is_back: list[set[str]] = []

        def is_back() -> None:
            set_before_it_is_back.append(rates(fake))
            fake.brokers = (1, 2, 3, 4)

        self.steps[40] = is_back
        self.steps[70] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT.replace("urp > 0", "offline > 0"))
        assert "Broker 3 is away, and waited for: it can be started now." in ran.err
        assert set_before_it_is_back == [{"2000000", ""}], "eleven seconds of it pass at once"
        assert "It stays so until the broker is back; then it is 8.0 MB/s." in ran.err
        assert max(int(rate) for seen in looks for rate in seen if rate) > 30 * MB
        assert "All replicas are in sync after" in ran.out
        assert own(fake) == before

    @pytest.mark.parametrize("leaves", [0, 20])
    def test_what_is_away_is_waited_for_also_when_the_others_are_in_sync(
        self, fake: Reassigning, looks: list[set[str]], leaves: int
    ) -> None:
        """From the beginning, or since."""
        before = deepcopy(own(fake))
        fake.partitions[BIG].isr = (1,)
        set_before_it_is_back: list[set[str]] = []

        def is_away() -> None:
            fake.brokers = (1, 2, 4)

        def is_back() -> None:
            set_before_it_is_back.append(rates(fake))
            fake.brokers = (1, 2, 3, 4)

        self.steps[leaves] = is_away
        self.steps.pop(0, lambda: None)()
        self.steps[40] = lambda: setattr(fake.partitions[BIG], "isr", (1, 2))
        self.steps[80] = is_back
        self.steps[110] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT.replace("urp > 0", "offline > 0"))
        assert ("Broker 3 is away, and waited for" in ran.err) == (not leaves)
        ((*_, at_last),) = [sorted(values) for values in set_before_it_is_back]
        assert at_last == "2000000", "eleven seconds of it pass at once"
        assert "All replicas are in sync after" in ran.out
        assert len(looks) > 110
        assert own(fake) == before

    def test_it_is_lowered_while_the_guard_is_crossed(
        self, fake: Reassigning, looks: list[set[str]]
    ) -> None:
        self.steps[90] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT, "--at-least 3MB/s")
        assert {"3000000"} in looks
        assert "urp > 0 (now 1)" in ran.err

    def test_what_somebody_else_sets_meanwhile_is_noticed_and_left(
        self, fake: Reassigning, looks: list[set[str]]
    ) -> None:
        self.steps[8] = lambda: fake.configs[BROKER, "2"].update({FOLLOWER_RATE: "5"})
        fake.partitions[PartitionId("small", 0)].target = (1, 2, 4)
        ran = fake.kipctl(self.ADAPT, status=5)
        assert "Somebody else has set follower.replication.throttled.rate of broker 2" in ran.err
        assert fake.configs[BROKER, "2"] == {FOLLOWER_RATE: "5"}
        assert entries_with_throttles(fake.kept) == []

    @pytest.mark.parametrize("force", ["", "--force"])
    def test_nobody_takes_it_off_while_it_waits_for_a_broker(
        self, fake: Reassigning, looks: list[set[str]], clock: PassingClock, force: str
    ) -> None:
        fake.brokers = (1, 2, 4)

        def another_terminal() -> None:
            shown = fake.kipctl("throttle show -o json").document["throttles"]
            assert all(throttle["is_needed"] for throttle in shown if throttle["value"] != "7")
            assert "They are set by the running kipctl (kipctl throttle adapt" in (
                " ".join(fake.kipctl("throttle show").out.split())
            )
            ran = fake.kipctl("changes clear-throttles --yes", force, status=4)
            assert "Another kipctl throttles this cluster" in ran.err
            assert fake.configs[BROKER, "2"]

        clock.meanwhile = [(lambda: len(looks) > 20, another_terminal)]
        self.steps[40] = lambda: setattr(fake, "brokers", (1, 2, 3, 4))
        self.steps[70] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT.replace("urp > 0", "offline > 0"))
        assert not clock.meanwhile
        assert "All replicas are in sync after" in ran.out

    def test_it_ends_where_its_throttle_was_taken_off(
        self, fake: Reassigning, looks: list[set[str]]
    ) -> None:
        self.steps[20] = lambda: fake.entries()[0].with_throttle(None)
        self.steps[40] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT.replace("urp > 0", "offline > 0"), status=5)
        assert "Somebody has taken the throttle off." in ran.err

    def test_ctrl_c_takes_it_off(self, fake: Reassigning, looks: list[set[str]]) -> None:
        before = deepcopy(own(fake))

        self.steps[8] = lambda: os.kill(os.getpid(), signal.SIGINT)
        ran = fake.kipctl(self.ADAPT, status=130)
        assert "The throttle is removed." in ran.err
        assert own(fake) == before
