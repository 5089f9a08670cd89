"""What a file of one's own experiment says, and what is said of one that makes no sense."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kipctl.errors import UsageError
from kipctl.experiments.arms.command_arm import CommandArm
from kipctl.experiments.arms.java_arm import JavaArm
from kipctl.experiments.arms.librdkafka_arm import LibrdkafkaArm
from kipctl.experiments.arms.probe_arm import ProbeArm
from kipctl.experiments.own.file import OwnPlan, read_experiment
from kipctl.lab.properties import DEFAULT_KAFKA_VERSION
from kipctl.probe.leadership import LeaderDiscovery

TWO = '[[arm]]\nname = "a"\nclient = "probe-kip951"\n[[arm]]\nname = "b"\nclient = "librdkafka"\n'


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], OwnPlan]:
    def plan(text: str) -> OwnPlan:
        file = tmp_path / "own.toml"
        file.write_text(text)
        return read_experiment(file)

    return plan


def test_arms_are_clients_with_settings_commands_and_versions_of_brokers(
    read: Callable[[str], OwnPlan],
) -> None:
    plan = read(
        """
        title = "four"
        runs = 5
        [load]
        throughput = 200
        seconds = 10
        acks = "1"
        [during]
        action = "restart:2"
        every = 2.5
        stale_metadata = 0.3
        [lab]
        kafka = "4.0.0"
        [[arm]]
        name = "own"
        client = "probe-baseline"
        settings = { "linger.ms" = 5, "enable.idempotence" = false }
        [[arm]]
        name = "java"
        client = "java-3.9.1"
        kafka = "3.9.2"
        [[arm]]
        name = "old"
        client = "librdkafka-2.4.0-1ms"
        [[arm]]
        name = "mine"
        command = ["./producer", "{bootstrap}", "{topic}"]
        """
    )
    settings = {"linger.ms": "5", "enable.idempotence": "false"}
    assert [arm.arm for arm in plan.arms] == [
        ProbeArm(name="own", discovery=LeaderDiscovery.BASELINE, settings=(*settings.items(),)),
        JavaArm(name="java", version="3.9.1"),
        LibrdkafkaArm(name="old", version="2.4.0", retry_backoff_ms=1),
        CommandArm(name="mine", words=("./producer", "{bootstrap}", "{topic}")),
    ]
    assert plan.load.of(plan.arms[0].arm).properties == {**plan.load.properties, **settings}
    assert plan.kafka_versions == ("4.0.0", "3.9.2")
    assert (plan.load.num_records, plan.load.warmup_records) == (2000, 400)
    assert plan.load.properties["enable.idempotence"] == "false"
    assert str(plan.actions.during) == "restart:2"
    assert plan.conditions.stale_metadata_us == 300_000
    assert plan.quick.file.runs == 1
    assert len(plan.quick.arms) == 4


def test_what_is_left_out_has_defaults(read: Callable[[str], OwnPlan]) -> None:
    plan = read(TWO)
    assert plan.file.runs == 3
    assert plan.kafka_versions == (DEFAULT_KAFKA_VERSION,)
    assert str(plan.actions.during) == "rotate"
    assert read('[during]\naction = "none"\n' + TWO).actions.during is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[arm]", "is not TOML"),
        ("runs = 3", "missing required field `arm`"),
        ("turns = 3\n" + TWO, "unknown field `turns`"),
        ('[load]\nthroughput = "fast"\n' + TWO, "$.load.throughput"),
        ('[[arm]]\nname = "a"\nclient = "librdkafka"', "two arms or more"),
        (TWO.replace('"b"', '"a"'), "named twice"),
        (TWO.replace('"b"', '"b/c"'), "is no name for an arm"),
        (TWO.replace('client = "librdkafka"', ""), "a client or a command"),
        (TWO + 'command = ["x"]', "a client or a command"),
        (TWO.replace('client = "librdkafka"', 'command = ["x"]\nsettings = {a = 1}'), "a program"),
        (TWO.replace('"librdkafka"', '"kafkajs"'), "records of 100 bytes, whatever is asked"),
        (TWO.replace('"librdkafka"', '"kafkajs"\nsettings = {a = 1}'), "a program"),
        (TWO.replace("librdkafka", "librdkafkaa"), "is no arm"),
        ('measures = ["p98"]\n' + TWO, "'p98' is no measure"),
        ('[load]\nacks = "0"\n' + TWO, "all or 1"),
        ("[load]\nseconds = 2\n" + TWO, "longer than during.every"),
        ("[load]\nseconds = nan\n" + TWO, "nan is no number of seconds"),
        ("warmup = inf\n" + TWO, "inf is no number of seconds"),
        ("[during]\nevery = 0\n" + TWO, "above 0"),
        ('[during]\naction = "dance"\n' + TWO, "is no action"),
        ("runs = 0\n" + TWO, "runs is 0"),
    ],
)
def test_what_makes_no_sense_is_named(read: Callable[[str], OwnPlan], text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(text)
    assert said in str(refused.value)
