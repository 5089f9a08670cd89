"""`kipctl throttle`: what a broker that came back copies, without a reassignment."""

import os
import signal
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from reassigning import Reassigning
from scripted_broker import Asked

from kipctl.changes.execution.adaptive_rate import CUT_S, FIRST_RAISE_S, RAISE_S, AdaptiveRate
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


RULE = AdaptiveRate(20 * MB, MB, 100 * MB, 0.0)


@pytest.mark.parametrize(
    ("before", "is_good", "now_s", "rate"),
    [
        # As long as nothing was too much it is doubled, up to the ceiling.
        (RULE, True, FIRST_RAISE_S - 0.1, 20 * MB),
        (RULE, True, FIRST_RAISE_S, 40 * MB),
        (AdaptiveRate(80 * MB, MB, 100 * MB, 0.0), True, 60.0, 100 * MB),
        (AdaptiveRate(100 * MB, MB, 100 * MB, 0.0), True, 60.0, 100 * MB),
        # It is halved at once, but for what was cut just before, and never below the floor.
        (RULE, False, 0.1, 10 * MB),
        (AdaptiveRate(10 * MB, MB, 100 * MB, 0.0, 20 * MB, True), False, CUT_S - 1, 10 * MB),
        (AdaptiveRate(10 * MB, MB, 100 * MB, 0.0, 20 * MB, True), False, CUT_S, 5 * MB),
        (AdaptiveRate(MB, MB, 100 * MB, 0.0, 2 * MB, True), False, 99.0, MB),
        # After that it is raised by a tenth of what was too much.
        (AdaptiveRate(10 * MB, MB, 100 * MB, 0.0, 20 * MB, True), True, CUT_S - 1, 10 * MB),
        (AdaptiveRate(10 * MB, MB, 100 * MB, 0.0, 20 * MB, True), True, CUT_S, 12 * MB),
        (AdaptiveRate(12 * MB, MB, 100 * MB, 0.0, 20 * MB), True, RAISE_S, 14 * MB),
        (AdaptiveRate(12 * MB, MB, 100 * MB, 0.0, 20 * MB), True, RAISE_S - 1, 12 * MB),
    ],
)
def test_the_rate_follows_what_the_guard_sees(
    before: AdaptiveRate, is_good: bool, now_s: float, rate: int
) -> None:
    after = before.after(is_good=is_good, now_s=now_s)
    assert after.rate == rate
    assert (after is before) == (rate == before.rate)


@dataclass
class SimulatedCluster:
    """Clients suffer when more than `bears` is copied a second, some seconds later as percentiles
    do; `left` is to be copied."""

    bears: int
    left: int
    seen: list[bool] = field(default_factory=lambda: [True] * 5)

    def second(self, rate: int) -> bool:
        self.left -= rate
        self.seen.append(rate <= self.bears)
        return all(self.seen[-5:])


@pytest.mark.parametrize("bears_mb", [3, 12, 50, 90, 500])
def test_it_finds_what_a_cluster_bears_and_stays_near(bears_mb: int) -> None:
    cluster = SimulatedCluster(bears_mb * MB, 400 * bears_mb * MB)
    rule, harmed, simulated_s = AdaptiveRate(20 * MB, MB, 1000 * MB, 0.0), 0, 0
    while cluster.left > 0 and simulated_s < 3000:
        simulated_s += 1
        harmed += rule.rate > cluster.bears
        rule = rule.after(is_good=cluster.second(rule.rate), now_s=float(simulated_s))
    assert simulated_s < 400 * 1.7, "it copies at most 1.7 times as long as what the cluster bears"
    assert harmed < 0.3 * simulated_s, "and is beyond that for less than a third of the time"


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
    assert {one["value"] for one in shown} == {"3000000", "*"}
    assert all("throttle set 3MB/s" in one["set_by"] for one in shown)
    assert all(one["is_needed"] for one in shown if one["kind"] == "topic")
    listed = fake.kipctl("changes list")
    assert "done, throttle still set" in listed.out
    assert "kipctl changes clear-throttles" in listed.out
    assert "A throttle is still set: entry" in fake.kipctl("").out
    ran = fake.kipctl("changes clear-throttles --yes", status=4)
    assert "Broker 3 catches up under them" in ran.err
    ran = fake.kipctl("throttle clear --yes")
    assert "Broker 3 still copies 1 partition" in ran.err
    assert own(fake) == before
    assert "A throttle" not in fake.kipctl("").out


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

        monkeypatch.setattr("kipctl.changes.recovery_throttle.list_reassignments", listed)
        self.steps[30] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT.replace("urp > 0", "offline > 0"))
        assert "All replicas are in sync after" in ran.out
        assert next(slow, None) is None

    def test_it_is_lowered_while_the_guard_is_crossed(
        self, fake: Reassigning, looks: list[set[str]]
    ) -> None:
        self.steps[60] = lambda: setattr(fake.partitions[BIG], "isr", None)
        ran = fake.kipctl(self.ADAPT, "--at-least 1MB/s")
        assert {"1000000"} in looks
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

    def test_ctrl_c_takes_it_off(self, fake: Reassigning, looks: list[set[str]]) -> None:
        before = deepcopy(own(fake))

        self.steps[8] = lambda: os.kill(os.getpid(), signal.SIGINT)
        ran = fake.kipctl(self.ADAPT, status=130)
        assert "The throttle is removed." in ran.err
        assert own(fake) == before
