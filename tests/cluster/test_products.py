"""What a command cannot do on the product that answers is said before it asks to begin."""

import json

import pytest
from reassigning import reassigning

from kipctl.cluster.snapshot import PartitionId

SAID = "Redpanda: moving replicas does not move the leader, and throttles are refused (redpanda-"


@pytest.mark.parametrize(("cluster_id", "is_other"), [("redpanda.1f", True), ("fake", False)])
def test_it_is_said_once_and_before_the_question(cluster_id: str, is_other: bool) -> None:
    with reassigning({PartitionId("t", 0): (1, 2, 3)}) as (cluster, _):
        cluster.cluster_id = cluster_id
        asked = cluster.kipctl("reassign --rotate --all-topics", typed="n\n", status=4)
        assert asked.err.count(SAID) == is_other
        assert SAID not in asked.err.partition(f"Cluster {cluster_id}")[2]
        done = cluster.kipctl("reassign --rotate --all-topics --yes", status=(0, 5))
        assert done.err.count(SAID) == is_other  # before the change, and not with its result again
        debugged = cluster.kipctl("--debug reassign --rotate --all-topics", typed="n\n", status=4)
        assert debugged.err.count(SAID) == is_other
        looked = cluster.kipctl("inspect leaders --output json")
        assert "Redpanda" not in looked.err
        tested = json.loads(cluster.kipctl("clusters test --output json", status=(0, 3)).out)
        assert tested["products"] == ["Redpanda" if is_other else "Apache Kafka"]
        assert [row["applies_to"] for row in tested["limits"]] == [
            "reassign, undo, changes undo, changes resume"
        ] * is_other
        of_others = [row for row in tested["steps"] if row["what"].endswith(" of Redpanda")]
        assert [row["step"] for row in of_others] == ["versions"] * is_other
        brokers = cluster.kipctl("inspect brokers --look-again 0s").out
        assert ("4 brokers of Redpanda" in brokers) is is_other


def test_of_a_command_that_asks_nothing_it_is_said_beside_what_it_shows() -> None:
    with reassigning({PartitionId("t", 0): (1, 2, 3)}) as (cluster, _):
        cluster.cluster_id = "vci_1d4930d7"
        assert cluster.kipctl("inspect leaders").err.count("any agent serves any partition") == 1
        assert "any agent" not in cluster.kipctl("clusters test", status=(0, 3)).err
