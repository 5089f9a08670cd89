"""What an experiment's options make of a plan, and when it is refused before anything starts."""

import os
import shutil
from collections import namedtuple

import pytest

from kipctl.errors import RefusedError, UsageError
from kipctl.experiments.arms.names import ARMS, parse_arm, parse_arms
from kipctl.experiments.arms.stand import Place
from kipctl.experiments.arms.tapped import Conditions
from kipctl.experiments.redirect.plan import (
    QUICK_ARMS,
    RedirectPlan,
    Scale,
    check_room,
    nodes_of,
    planned,
    resources_needed,
)
from kipctl.experiments.redirect.published import set_up_differences
from kipctl.experiments.redirect.result import set_up
from kipctl.load.plan import usual_rate
from kipctl.probe.produce.config import parse_properties
from kipctl.protocol.api import ApiKey
from kipctl.transport.access import Access

FRESH = Conditions()
Usage = namedtuple("Usage", "total used free")


def names(plan: RedirectPlan) -> tuple[str, ...]:
    return tuple(arm.name for arm in plan.arms)


def test_by_default_every_arm_runs_three_times_with_four_rotations_each() -> None:
    plan = planned(Scale.DEFAULT, {}, FRESH)
    assert names(plan) == ARMS
    assert (plan.runs, plan.rotations, plan.seconds) == (3, 4, 12.5)
    assert plan.throughput == usual_rate(os.cpu_count() or 1)
    # The first rotation is warm-up too, up to half a second before the second.
    assert plan.warmup_records == 4.5 * plan.throughput
    # A single one counts.
    plan = planned(Scale.DEFAULT, {"throughput": 100, "num_records": 300}, FRESH)
    assert (plan.rotations, plan.warmup_records) == (1, 200)


@pytest.mark.parametrize(("cores", "rate"), [(1, 150), (2, 300), (10, 1500), (64, 1500)])
def test_the_rate_leaves_cores_time_for_rotations(cores: int, rate: int) -> None:
    assert usual_rate(cores) == rate


def test_quick_has_fewer_arms_and_enough_rotations_to_compare() -> None:
    plan = planned(Scale.QUICK, {"arms": None}, FRESH)
    assert names(plan) == QUICK_ARMS
    assert plan.runs * plan.rotations >= 5
    assert plan.runs * len(plan.arms) * plan.seconds <= 60
    # What is given goes before the scale.
    arms = parse_arms("librdkafka,librdkafka-1ms")
    plan = planned(Scale.QUICK, {"arms": arms, "runs": 5, "throughput": None}, FRESH)
    assert (plan.arms, plan.runs, plan.throughput) == (arms, 5, usual_rate(os.cpu_count() or 1))


@pytest.mark.parametrize("arms", ["probe-kip951", "java-4.3.1,librdkafka,probe-kip951"])
def test_what_would_not_be_compared_is_refused_before_it_begins(arms: str) -> None:
    with pytest.raises(UsageError, match="Nothing would be compared"):
        planned(Scale.QUICK, {"arms": parse_arms(arms)}, FRESH)


def test_rotations_give_stale_metadata_the_time_to_pass() -> None:
    stale = planned(Scale.QUICK, {}, Conditions(stale_metadata_us=2_000_000))
    assert (stale.every_s, stale.rotations) == (4, 4)
    of_a_curve = planned(Scale.QUICK, {}, FRESH, stalest_us=1_000_000)
    assert of_a_curve.every_s == 2.5
    assert planned(Scale.QUICK, {"every_s": 0.5}, stale.conditions).every_s == 0.5


def test_the_kips_own_scale() -> None:
    plan = planned(Scale.KIP, {}, FRESH)
    assert (plan.num_records, plan.throughput, plan.record_size) == (40_000_000, 100_000, 1000)
    assert (plan.partitions, plan.runs, plan.seconds) == (100, 3, 400)
    assert (plan.acks, plan.load.properties["enable.idempotence"]) == ("all", "true")
    assert (plan.rotations, plan.warmup_records) == (1, 0)
    fewer = planned(Scale.KIP, {"num_records": 100_000, "throughput": 1000}, FRESH)
    assert (fewer.every_s, fewer.rotations) == (50, 1)
    here = set_up(plan, Place(None, 6, 3), 6, "4.3.1")
    otherwise = {difference["what"] for difference in set_up_differences(here)}
    assert otherwise == {"machines", "Kafka of the brokers", "latency is of"}
    assert nodes_of(Scale.KIP) == (6, 3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"runs": 0}, "--runs is 0"),
        ({"acks": "0"}, "--acks is 0; it is one of 1, all"),
        ({"partitions": -1}, "--partitions is -1"),
        ({"every_s": 0.0}, "--every must be above 0"),
        ({"num_records": 1500, "throughput": 1500}, "no rotation is due"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        planned(Scale.DEFAULT, given, FRESH)


def test_every_client_gets_properties_that_it_has() -> None:
    load = planned(Scale.DEFAULT, {"acks": "all"}, FRESH).load
    of_probe = parse_properties(load.of(parse_arm("probe-refresh")).properties)
    assert (of_probe.acks, of_probe.partitioner) == (-1, "round-robin")
    assert not of_probe.enable_idempotence
    of_java = load.of(parse_arm("java-3.6.0")).properties
    assert of_java["partitioner.class"].endswith("RoundRobinPartitioner")
    of_librdkafka = load.of(parse_arm("librdkafka")).properties
    assert "partitioner.class" not in of_librdkafka
    assert "retry.backoff.ms" not in of_librdkafka
    assert load.of(parse_arm("librdkafka-1ms")).properties["retry.backoff.ms"] == "1"


def test_the_tap_has_the_arms_own_conditions_and_those_of_all() -> None:
    conditions = Conditions(metadata_delay_us=300_000, stale_metadata_us=1_000_000)
    tap = conditions.tap(parse_arm("java-4.3.1-capped"), "127.0.0.1:9092")
    assert dict(tap.caps) == {ApiKey.PRODUCE: 9, ApiKey.FETCH: 15}
    assert dict(tap.delays) == {ApiKey.METADATA: 300_000}
    assert tap.stale_metadata_us == 1_000_000
    plain = FRESH.tap(parse_arm("java-4.3.1-unhinted"), "127.0.0.1:9092")
    assert (plain.caps, plain.delays, plain.drop_hints) == ((), (), True)


def test_a_lab_that_its_disk_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 131_000_000_000))
    kip = planned(Scale.KIP, {}, FRESH)
    with pytest.raises(RefusedError, match="would write 132 GB, and 131 GB are free"):
        check_room(kip, Place())
    check_room(kip, Place(Access("kafka.example.org:9092")))
    check_room(planned(Scale.KIP, {"num_records": 39_000_000}, FRESH), Place())


def test_it_is_told_beforehand_how_long_it_takes_and_what_the_machine_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    kip = planned(Scale.KIP, {}, FRESH)
    told = resources_needed(kip, Place(brokers=6, controllers=3))
    assert told.startswith("24 runs of 400 s, with 1 rotation of 100 leaders in each: about 162")
    assert "9 nodes, the tap and the client share 2 cores" in told
    assert "cores" not in resources_needed(kip, Place(Access("kafka.example.org:9092")))
    monkeypatch.setattr("os.cpu_count", lambda: 11)
    place = Place(brokers=6, controllers=3)
    assert "cores" not in resources_needed(kip, place)
    assert (place.lab.brokers, place.lab.controllers) == (6, 3)
