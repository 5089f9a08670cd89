"""Who says yes is not asked."""

import pytest
from no_own_topics import await_no_own_topics
from on_lab import Kipctl, MakeTopic, leaders_of

from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def test_who_says_yes_is_not_asked(
    cluster: Cluster, kipctl: Kipctl, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session's lab is taken for somebody's cluster."""
    monkeypatch.setattr("kipctl.load.actions.running_labs", list)
    make_topic("guarded", [[1, 2], [2, 3]])
    kipctl("inspect metadata --measure-convergence --moves 1 --yes")
    words = "--topic guarded --num-records 80 --throughput 10 --record-size 9 --partitions 1"
    more = "--during rotate --every 0.5 --count 1 --yes"
    kipctl("perf produce", *words.split(), *more.split())
    assert leaders_of(cluster, "guarded") == [2, 3]
    await_no_own_topics(cluster)
