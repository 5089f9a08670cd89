"""What a test leaves as it was on a lab that it shares: nodes, topics, leaders, configs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kipctl.cluster.throttle_configs import RATES
from kipctl.errors import KipctlError
from kipctl.lab.cluster import Lab
from kipctl.protocol.describe_configs import ConfigSource, ResourceType, configs_request
from kipctl.transport.request import Cluster

UNASKED_NOTHING = (
    ("leader.imbalance.check.interval.seconds", "86400"),
    # No record every half second that nothing happened: it is a third of what an idle lab costs.
    ("metadata.max.idle.interval.ms", "0"),
    # Brokers that have had no controller for so long look for one with all the processor time there
    # is (raft-io).
    ("controller.quorum.fetch.timeout.ms", "60000"),
)
"""Settings of a lab of one controller that waits between tests: it does nothing by itself."""

SESSION = ("broker.session.timeout.ms", "6000")
"""A lab's own 3 s pass on a busy machine, and leaders move that nobody has struck. A broker that is
started again waits for the end of its session; on such a machine Java takes as long to start."""

_TIMEOUT_S = 60.0

State = dict[str, object]


def lab_state(lab: Lab) -> State:
    """By the name of what it is. Topics that Kafka makes for itself stay out."""
    state: State = {node.spec.label: node.state.value for node in lab.nodes}
    with Cluster(lab.access, timeout_s=10.0) as cluster:
        topics = {t.name: t for t in cluster.metadata().topics if not t.name.startswith("__")}
        for name, topic in topics.items():
            state[f"topic {name}"] = topic.topic_id
            for p in topic.partitions:
                state[f"replicas of {name}-{p.partition_index}"] = p.replica_nodes
                state[f"leader of {name}-{p.partition_index}"] = p.leader_id
        if topics:
            asked = configs_request(ResourceType.TOPIC, topics, ())
            for result in cluster.any_broker().request(asked).results:
                for config in result.configs:
                    if config.config_source == ConfigSource.TOPIC:
                        state[f"{config.name} of {result.resource_name}"] = config.value
        for broker in cluster.nodes:
            asked = configs_request(ResourceType.BROKER, [str(broker)], RATES)
            for result in cluster.broker(broker).request(asked).results:
                for config in result.configs:
                    if config.config_source == ConfigSource.BROKER:
                        state[f"{config.name} of broker {broker}"] = config.value
    return state


@contextmanager
def left_as_it_was(lab: Lab) -> Iterator[None]:
    """After the block the lab has to be as before it, as soon as all of its brokers know that."""
    before = lab_state(lab)
    yield
    deadline = time.monotonic() + _TIMEOUT_S
    while difference := _difference(lab, before):
        assert time.monotonic() < deadline, f"left otherwise on lab {lab.name}: {difference}"
        time.sleep(0.1)


def _difference(lab: Lab, before: State) -> object:
    try:
        now = lab_state(lab)
    except KipctlError as error:  # a broker that is still on its way back
        return error
    return {
        name: (before.get(name), now.get(name))
        for name in before.keys() | now.keys()
        if before.get(name) != now.get(name)
    }
