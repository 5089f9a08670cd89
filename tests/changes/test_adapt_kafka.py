"""`kipctl throttle adapt` on real brokers: whole, and killed at random moments.

What is set is looked at by another client than kipctl.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from campaigns import as_many, campaign, chance
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from on_lab import Kipctl

from kipctl.cluster.throttle_configs import RATES, REPLICAS
from kipctl.lab.cluster import Lab
from kipctl.process import wait_until

pytestmark = pytest.mark.kafka
BIG, BACK = "big", 3
TIMEOUT_S = 240.0
ADAPT = ("throttle", "adapt", "--topic", BIG, "--yes")
SLOW = ("--guard", "offline > 0", "--begin-at", "100kB/s", "--at-least", "100kB/s")
SLOW = (*SLOW, "--at-most", "200kB/s")
CONTROLLER = 101
ENDS = ("killed", "killed without a controller", "Ctrl-C without a controller")


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    return struck_lab


@pytest.fixture
def admin(lab: Lab) -> AdminClient:
    return AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})


def set_now(lab: Lab, brokers: tuple[int, ...] = (1, 2, 3)) -> set[tuple[str, str, str]]:
    """All throttles of these brokers, and of the topic: whose, which and what. Each time by a new
    client: one that has known a broker which is away now waits for it."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    of_brokers = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in brokers]
    throttles = set()
    for asked in (*of_brokers, ConfigResource(ResourceType.TOPIC, BIG)):
        for resource, answer in admin.describe_configs([asked], request_timeout=60).items():
            throttles |= {
                (resource.name, name, entry.value)
                for name, entry in answer.result().items()
                if name in (*RATES, *REPLICAS) and entry.value and not entry.is_default
            }
    return throttles


def answers(lab: Lab, broker: int) -> bool:
    """Whether another client finds the broker again."""
    try:
        set_now(lab, (broker,))
    except KafkaException:
        return False
    return True


def is_in_sync(admin: AdminClient) -> bool:
    partitions = admin.list_topics(BIG, timeout=30).topics[BIG].partitions.values()
    return all(len(partition.isrs) == len(partition.replicas) for partition in partitions)


@contextmanager
def behind(lab: Lab, admin: AdminClient, megabytes: int) -> Iterator[None]:
    """Inside, broker 3 is away, and lacks so much; it is whole afterwards."""
    replicas = [[1, 3], [2, 3]]
    kept = {"retention.bytes": "-1"}  # labs remove old data within seconds; here it is copied
    new = NewTopic(BIG, 2, replica_assignment=replicas, config=kept)
    admin.create_topics([new])[BIG].result()
    assert wait_until(lambda: is_in_sync(admin), TIMEOUT_S)
    lab.stop(BACK)
    try:
        producer = Producer({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
        for number in range(megabytes * 10):
            producer.produce(BIG, os.urandom(100_000), partition=number % 2)
            producer.poll(0)
        assert producer.flush(60) == 0
        yield
    finally:
        lab.start(BACK)
        assert wait_until(lambda: is_in_sync(admin), TIMEOUT_S)
        admin.delete_topics([BIG])[BIG].result()


def begin(lab: Lab, state: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kipctl", *ADAPT, *words],
        env={
            **os.environ,
            "KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server,
            "XDG_STATE_HOME": str(state),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_begun_before_the_broker_is_back_it_ends_when_that_is_whole(
    lab: Lab, admin: AdminClient, state: Path
) -> None:
    with behind(lab, admin, megabytes=20):
        with begin(lab, state, "--begin-at", "5MB/s") as running, ExitStack() as failing:
            failing.callback(running.kill)  # it would wait for the broker for ever
            assert running.stdout is not None
            said = ""
            while "waiting for it" not in said:
                line = running.stdout.readline()
                assert line, said
                said += line
            assert re.search(r"Undisturbed, p95 is \d+\.\d ms: the guard is crossed above \d", said)
            rates = {value for _, name, value in set_now(lab, (1, 2)) if name in RATES}
            assert rates == {"2000000"}
            lab.start(BACK)
            said += running.stdout.read()
            assert running.wait(TIMEOUT_S) == 0, said
        assert "All replicas are in sync after" in said
        assert set_now(lab) == set()


def end(running: subprocess.Popen[str], lab: Lab, rng: Random, how: str) -> str:
    """At a random moment, from the beginning until the rate has followed the guard for a while.

    Returns what it said.
    """
    before = set_now(lab)
    if rng.random() < 0.8:
        wait_until(lambda: set_now(lab) != before, TIMEOUT_S)
    try:
        if "without a controller" in how:
            # What is tested is a random moment: no event tells where it is.
            time.sleep(rng.uniform(0, 2))
            lab.kill(CONTROLLER)
        with suppress(subprocess.TimeoutExpired):
            running.wait(rng.uniform(0, 4))
        # Who has just begun needs a controller, and may say so in time.
        assert running.poll() is None or "without" in how, running.communicate()
        running.send_signal(signal.SIGINT if "Ctrl-C" in how else signal.SIGKILL)
        return running.communicate(timeout=TIMEOUT_S)[0]
    finally:
        lab.start(CONTROLLER)


@campaign
@pytest.mark.timeout(3600)
def test_ended_at_a_random_moment_it_leaves_nothing_silently(
    lab: Lab, admin: AdminClient, kipctl: Kipctl, state: Path
) -> None:
    rng = chance("throttle adapt")
    with behind(lab, admin, megabytes=as_many(120, 600)):
        kipctl("throttle set 100kB/s --yes --topic", BIG)
        lab.start(BACK)
        assert wait_until(lambda: answers(lab, BACK), TIMEOUT_S)
        for moment in range(as_many(3, 20)):
            how = ENDS[moment % len(ENDS)]
            said = end(begin(lab, state, *SLOW), lab, rng, how)
            left = set_now(lab)
            # What was set as it was killed, one broker may know before the one that kipctl asks.
            assert not left or wait_until(
                lambda: "throttle still set" in kipctl("changes list").out, 60
            ), (how, left, said)
            told = "The throttle is not all removed" in said or "is removed" in said
            # Before that there was nothing of its own to put back.
            assert told or "Ctrl-C" not in how or "Adapting the throttle" not in said, said
        kipctl("throttle clear --yes")
        assert wait_until(lambda: not set_now(lab), 30), set_now(lab)
        assert "still set" not in kipctl("changes list").out
