"""Arms by name, which of them are compared, and the order in which they run."""

import re
from dataclasses import replace
from typing import cast

import pytest

from kipctl.errors import UsageError
from kipctl.experiments.arms.arm import WITHOUT_HINTS, Arm, in_turn, pairs
from kipctl.experiments.arms.command_arm import CommandArm
from kipctl.experiments.arms.java_arm import JavaArm
from kipctl.experiments.arms.librdkafka_arm import LibrdkafkaArm
from kipctl.experiments.arms.names import ARMS, parse_arm, parse_arms
from kipctl.experiments.arms.preset_arm import PresetArm
from kipctl.experiments.arms.probe_arm import ProbeArm
from kipctl.experiments.arms.tapped import Load
from kipctl.load.clients.command import CommandClient
from kipctl.load.presets import PRESETS, Preset
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.protocol.fetch import FetchResponse
from kipctl.protocol.produce import ProduceResponse

_GIVEN = {"acks": "1", "partitioner.class": "RoundRobinPartitioner"}
_PROBE = {mode: ProbeArm(name=f"probe-{mode}", discovery=mode) for mode in LeaderDiscovery}


@pytest.mark.parametrize(
    ("arm", "takes_hints", "kip_arm"),
    [
        (_PROBE[LeaderDiscovery.KIP951], True, "with hints"),
        (_PROBE[LeaderDiscovery.REFRESH], False, "rejected alternative"),
        (_PROBE[LeaderDiscovery.BASELINE], False, "baseline"),
        (JavaArm(name="java-3.6.0", version="3.6.0"), False, "baseline"),
        (JavaArm(name="java-3.6.1", version="3.6.1"), False, "rejected alternative"),
        (JavaArm(name="java-3.9.1", version="3.9.1"), True, "with hints"),
        (LibrdkafkaArm(name="librdkafka"), False, ""),
        (LibrdkafkaArm(name="librdkafka-unhinted", drop_hints=True), False, ""),
        (PresetArm(name="sarama", preset="sarama"), True, ""),
        (PresetArm(name="kafkajs-unhinted", preset="kafkajs", drop_hints=True), False, ""),
        (LibrdkafkaArm(name="librdkafka-5ms", retry_backoff_ms=5), False, ""),
        (LibrdkafkaArm(name="librdkafka-2.4.0", version="2.4.0"), False, ""),
    ],
)
def test_an_arm_by_its_name(arm: Arm, takes_hints: bool, kip_arm: str) -> None:
    assert parse_arm(arm.name) == arm
    assert (arm.takes_hints, arm.kip_arm) == (takes_hints, kip_arm)


def test_librdkafka_sends_to_a_random_partition_and_has_its_own_settings() -> None:
    assert parse_arm("java-3.9.1").given(_GIVEN) == _GIVEN
    assert parse_arm("librdkafka-2.4.0-5ms").given(_GIVEN) == {
        "acks": "1", "sticky.partitioning.linger.ms": "0", "retry.backoff.ms": "5"
    }  # fmt: skip
    assert parse_arm("librdkafka").given({"acks": "1"}) == {"acks": "1"}


def test_hints_are_taken_from_a_java_client_by_older_versions_or_out_of_the_answers() -> None:
    capped, unhinted = parse_arms("java-4.3.1-capped,java-4.3.1-unhinted")
    assert (capped.caps, capped.drop_hints) == (WITHOUT_HINTS, False)
    assert (unhinted.caps, unhinted.drop_hints) == ((), True)
    for arm in (capped, unhinted):
        assert not arm.takes_hints
        assert arm.kip_arm == "rejected alternative"


def test_the_caps_are_the_last_versions_whose_answers_cannot_name_where_a_leader_listens() -> None:
    first_with_endpoints = {0: 10, 1: 16}
    assert {key: cap + 1 for key, cap in WITHOUT_HINTS} == first_with_endpoints
    for response in (ProduceResponse, FetchResponse):
        assert "node_endpoints" in response.__dataclass_fields__


@pytest.mark.parametrize(
    "text", ["", "java", "java-4.3", "probe", "probe-KIP951", "librdkafka-ms", "probe-refresh,"]
)
def test_what_is_no_arm_is_refused_as_is_one_that_is_named_twice(text: str) -> None:
    with pytest.raises(UsageError, match="is no arm"):
        parse_arms(text)
    with pytest.raises(UsageError, match="librdkafka is named twice"):
        parse_arms("librdkafka,probe-refresh,librdkafka")


def test_a_command_is_two_arms_with_hints_and_without() -> None:
    text = """probe-kip951,mine=./app --to {bootstrap} 'a, b' {topic},other="x,y" z"""
    arms = parse_arms(text, takes_producers=True)
    assert [(arm.name, arm.drop_hints) for arm in arms] == [
        ("probe-kip951", False),
        ("mine-unhinted", True),
        ("mine", False),
        ("other-unhinted", True),
        ("other", False),
    ]
    words = ("./app", "--to", "{bootstrap}", "a, b", "{topic}")
    assert arms[2] == CommandArm(name="mine", words=words)
    assert arms[4] == CommandArm(name="other", words=("x,y", "z"))
    compared = [(a.name, b.name, b.takes_hints) for a, b in pairs(arms)]
    assert compared == [("mine-unhinted", "mine", True), ("other-unhinted", "other", True)]


def test_the_same_command_twice_is_compared_with_its_own_arm_without_hints() -> None:
    """How far two such arms differ is how far off what is measured may be."""
    arms = parse_arms("old='./app',new='./app'", takes_producers=True)
    compared = [(without.name, with_it.name) for without, with_it in pairs(arms)]
    assert compared == [("old-unhinted", "old"), ("new-unhinted", "new")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mine=./app 'open", '--arms mine "./app \'open": no closing quotation'),
        ("mine=   ", "'mine=' is no arm"),
        ("mine=a,mine=b", "is named twice"),
    ],
)
def test_a_command_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_arms(text, takes_producers=True)
    assert said in refused.value.what


def test_a_preset_is_started_as_a_producer_with_the_acks_and_the_rate_of_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preset = Preset("mine", "1.2", lambda say: ("./mine",), metadata_ms=7_000)
    for variant in (preset, replace(preset, name="strict", acks="all")):
        monkeypatch.setitem(cast(dict[str, Preset], PRESETS), variant.name, variant)
    client = parse_arm("mine").fetched(None, print)
    given = "{bootstrap} {topic} {partitions} {rate} {acks}"
    words = f"./mine producer {given} mine".split(" ")
    assert client == CommandClient((*words, "", "7000"), version="1.2", software="mine")
    load = Load(topic="t", num_records=9, throughput=3, record_size=1000, properties=_GIVEN)
    assert [load.of(parse_arm(name)).properties for name in ("mine", "strict", "java-3.9.1")] == [
        {"acks": "1"}, {"acks": "all"}, _GIVEN
    ]  # fmt: skip
    assert load.of(parse_arm("mine")).record_size == 100


@pytest.mark.parametrize("arm", ["mine=./app", "sarama", "kafkajs-unhinted"])
def test_what_only_produces_is_no_arm_where_records_are_read_too(arm: str) -> None:
    with pytest.raises(UsageError, match="only produces: it is no arm here"):
        parse_arms(arm)


def test_all_arms_are_compared_so() -> None:
    arms = parse_arms(",".join(ARMS))
    assert [(without.name, with_it.name) for without, with_it in pairs(arms)] == [
        ("probe-baseline", "probe-refresh"),
        ("probe-baseline", "probe-kip951"),
        ("probe-refresh", "probe-kip951"),
        ("java-3.6.0", "java-4.3.1-capped"),
        ("java-3.6.0", "java-4.3.1"),
        ("java-4.3.1-capped", "java-4.3.1"),
        ("librdkafka", "librdkafka-1ms"),
    ]


@pytest.mark.parametrize(
    ("names", "compared"),
    [
        ("probe-kip951", []),
        ("probe-kip951,java-4.3.1", []),
        ("probe-kip951,probe-refresh", [("probe-refresh", "probe-kip951")]),
        ("java-4.3.1,java-4.3.1-capped", [("java-4.3.1-capped", "java-4.3.1")]),
        ("java-4.3.1,java-3.9.1", [("java-3.9.1", "java-4.3.1")]),
        ("librdkafka-1ms,librdkafka-9ms", []),
        ("librdkafka,librdkafka-unhinted", [("librdkafka-unhinted", "librdkafka")]),
        ("sarama,kafkajs,kafkajs-unhinted", [("kafkajs-unhinted", "kafkajs")]),
    ],
)
def test_only_one_kind_of_client_is_compared_and_no_pair_twice(
    names: str, compared: list[tuple[str, str]]
) -> None:
    paired = [(a.name, b.name) for a, b in pairs(parse_arms(names, takes_producers=True))]
    assert paired == compared


def test_arms_take_turns_and_every_other_turn_goes_the_other_way() -> None:
    arms = parse_arms("probe-baseline,probe-refresh,librdkafka")
    assert [(arm.name, number) for arm, number in in_turn(arms, 3)] == [
        ("probe-baseline", 1),
        ("probe-refresh", 1),
        ("librdkafka", 1),
        ("librdkafka", 2),
        ("probe-refresh", 2),
        ("probe-baseline", 2),
        ("probe-baseline", 3),
        ("probe-refresh", 3),
        ("librdkafka", 3),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("/nowhere/app", "{bootstrap}", "{topic}"), "/nowhere/app cannot be run"),
        (("true", "{bootstrap}"), "has no {topic}"),
        (("true", "{topic}"), "has no {bootstrap}"),
    ],
)
def test_a_program_that_cannot_measure_is_refused_before_there_is_a_lab(
    words: tuple[str, ...], told: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        CommandArm(name="mine", words=words).fetched(None, print)
