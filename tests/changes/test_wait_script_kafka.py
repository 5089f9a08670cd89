"""`kipctl wait` in a shell script that restarts brokers by itself: never early, and never stuck.

The script says where it is, and goes on once another client than kipctl has had its look.
"""

import os
import subprocess
import sys
from contextlib import suppress

import pytest
from campaigns import as_many, campaign, chance
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata
from on_lab import in_sync, wait_until_everywhere

from kipctl.lab.cluster import Lab
from kipctl.lab.node import Node
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

TOPIC, PARTITIONS = "waited-for", 6
SCRIPT = r"""
set -eu
for broker in $BROKERS; do
    pid=$(sed 's/ .*//' "$FOLDER/broker-$broker/process")
    kill -TERM "$pid"
    while grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$pid/status" 2>/dev/null; do
        sleep 0.1
    done
    echo "down $broker"; read -r go
    "$PYTHON" -m kipctl lab start "$broker" --name "$NAME" >/dev/null 2>&1 &
    "$PYTHON" -m kipctl wait --until in-sync --timeout 300 >/dev/null
    echo "in-sync $broker"; read -r go
    "$PYTHON" -m kipctl elect preferred --all --yes >/dev/null
    "$PYTHON" -m kipctl wait --until in-sync,preferred,converged,no-reassignment --timeout 300 \
        >/dev/null
    echo "all $broker"; read -r go
    wait
done
echo end
"""


def shown(lab: Lab) -> dict[int, list[PartitionMetadata]]:
    """Every partition of the lab as each broker that runs shows it, asked anew."""
    return {node.id: shown_by(node) for node in lab.nodes if node.id < 100 and node.pid}


def shown_by(node: Node) -> list[PartitionMetadata]:
    """A client that is new asks the one address that it has (-1), or soon any other broker."""
    while True:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 0})
        with suppress(KafkaException):
            answer = admin.list_topics(timeout=30)
            if answer.orig_broker_id in (-1, node.id):
                topics = answer.topics.values()
                return [partition for topic in topics for partition in topic.partitions.values()]


def lacking(partitions: list[PartitionMetadata]) -> list[PartitionMetadata]:
    return [p for p in partitions if sorted(p.isrs) != sorted(p.replicas)]


@campaign
@pytest.mark.timeout(3600)
def test_a_script_that_restarts_brokers_is_never_let_on_early_and_never_stuck(
    struck_lab: Lab,
) -> None:
    lab, drawn = struck_lab, chance("restarted")
    restarted = [drawn.randint(1, 3) for _ in range(as_many(1, 10))]
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    replicas = [[n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1] for n in range(PARTITIONS)]
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, replica_assignment=replicas)])[TOPIC].result()
    with Cluster(lab.bootstrap_server, timeout_s=30) as cluster:
        wait_until_everywhere(cluster, TOPIC, in_sync)
    variables = os.environ | {
        "KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server,
        "BROKERS": " ".join(map(str, restarted)),
        "FOLDER": str(lab.folder),
        "NAME": lab.name,
        "PYTHON": sys.executable,
    }
    seen = []
    with subprocess.Popen(
        ["bash", "-c", SCRIPT],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as script:
        assert script.stdin
        assert script.stdout
        for line in script.stdout:
            if line == "end\n":
                break
            what, broker = line.split()
            seen.append(what)
            while what == "down" and lab.node(int(broker)).pid:
                pass  # its threads may outlive the one that the script looks at
            views = shown(lab)
            if what == "down":  # there is something to wait for
                assert int(broker) not in views
                while not all(lacking(view) for view in views.values()):
                    views = shown(lab)
            else:
                assert sorted(views) == [1, 2, 3]
            if what == "in-sync":
                # One broker at least shows it: which one kipctl has asked is not known.
                assert any(not lacking(view) for view in views.values()), views
            if what == "all":
                for view in views.values():
                    assert not lacking(view), (line, views)
                    assert [p.leader for p in view] == [p.replicas[0] for p in view], (line, views)
            script.stdin.write("go on\n")
            script.stdin.flush()
        script.stdin.close()
        assert script.wait() == 0
    assert seen == ["down", "in-sync", "all"] * len(restarted)
    admin.delete_topics([TOPIC])[TOPIC].result()
