"""What moves leaders that are not kipctl's own, or makes many topics, is asked for on a cluster."""

import pytest
from reassigning import Reassigning

from kipctl.cluster.snapshot import PartitionId

REPLICAS = {PartitionId("guarded", number): (1, 2, 3) for number in range(2)}


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (
            "perf produce --topic guarded --num-records 9 --throughput 5 --record-size 9"
            " --during rotate",
            "--during rotate moves the leaders of 2 partitions of topic 'guarded'",
        ),
        (
            "perf produce --topic guarded --num-records 9 --throughput 5 --record-size 9"
            " --during elect --force",
            "--during elect moves the leaders",
        ),
        ("perf e2e --topic guarded --num-records 9 --during reassign", "--during reassign moves"),
        ("perf consume --topic guarded --num-records 9 --during rotate", "--during rotate moves"),
        ("perf metadata --topics 50", "It makes 50 topics with 300 replicas in all"),
        ("experiment metadata --topics 50 --arms probe-kip526", "It makes 50 topics"),
        ("inspect metadata --measure-convergence", "--measure-convergence makes a topic of 30"),
    ],
)
def test_it_asks_before_anything_is_done_and_says_on_which_cluster(
    fake: Reassigning, command: str, question: str
) -> None:
    more = f"--bootstrap-server {fake.bootstrap_server}" if "experiment" in command else ""
    ran = fake.kipctl(command, more, status=2)
    assert ran.out == ""
    assert question in ran.err
    assert f"id fake, at {fake.bootstrap_server}" in ran.err
    assert ran.err.endswith("Repeat with --yes.\n")
    assert (fake.altered, fake.elected) == ([], [])
    assert fake.replicas() == REPLICAS


def test_a_topic_that_is_not_there_is_not_asked_about(fake: Reassigning) -> None:
    words = "perf consume --topic nowhere --num-records 9 --during rotate --yes"
    assert "There is no topic 'nowhere'." in fake.kipctl(words, status=2).err
