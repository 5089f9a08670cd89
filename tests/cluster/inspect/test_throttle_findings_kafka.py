"""The commands that take a throttle off, as `inspect brokers` prints them, run by Kafka itself."""

import shlex
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from on_lab import Kipctl, MakeTopic, kafka_configs

from kipctl.cluster.throttle_configs import FOLLOWER_RATE, LEADER_RATE, LEADER_REPLICAS
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until
from kipctl.protocol.describe_configs import ResourceType as Kind
from kipctl.protocol.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def test_the_commands_that_are_printed_remove_what_was_left(
    lab: Lab, cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic
) -> None:
    """A rate for all brokers is removed there, and the topic's list in the same look."""
    topic = make_topic("left", [[1, 2, 3]])
    change = ConfigEntry(LEADER_REPLICAS, "*", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])

    def left() -> list[dict[str, object]]:
        findings = kipctl("inspect brokers -o json").document["findings"]
        return [finding for finding in findings if finding["id"] == "throttle-left-behind"]

    def default_rates(value: str | None) -> None:
        how = ConfigOperation.SET if value else ConfigOperation.DELETE
        rates = tuple(AlterableConfig(name, how, value) for name in (LEADER_RATE, FOLLOWER_RATE))
        of_all = AlterConfigsResource(Kind.BROKER, "", rates)
        answer = cluster.ask_controller(IncrementalAlterConfigsRequest(resources=(of_all,)))
        assert [response.error_code for response in answer.responses] == [0]

    with ExitStack() as failing:
        default_rates("1000000")
        failing.callback(default_rates, None)
        admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
        admin.incremental_alter_configs([resource])[resource].result()

        # Brokers hear of it a moment later.
        assert wait_until(lambda: "topic" in str(left()), 60), left()
        (finding,) = left()
        assert "a rate on all brokers, set as their default (1,000,000 B/s)" in str(finding["what"])
        assert finding["severity"] == "warning"
        commands = finding["commands"]
        assert isinstance(commands, list)
        assert len(commands) == 2
        for command in commands:
            tool, *arguments = shlex.split(command)
            assert tool == "kafka-configs"
            kafka_configs(lab, *arguments)
        assert wait_until(lambda: not left(), 60), left()
        failing.pop_all()
