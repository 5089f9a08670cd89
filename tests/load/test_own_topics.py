"""Topics of a run's own: nobody else's are taken for them, and what is left of them is said."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import pytest
from one_process import in_this_process

from kipctl.cleanup_failures import CleanupFailures
from kipctl.cli.environment import Environment
from kipctl.errors import ExitStatus, RefusedError, UnreachableError
from kipctl.load import own_topic as module
from kipctl.load.own_topic import own_topics
from kipctl.load.plan import check_topic
from kipctl.own_topic_names import Leftovers, is_own, leftovers, new_name, own_host
from kipctl.transport.request import Cluster


@pytest.mark.parametrize(
    ("topic", "own"),
    [
        ("kipctl-perf-kafka-ops-1-4711-0a1b2c", True),
        ("kipctl-metadata-host-4711-0a1b2c-0001", True),
        ("kipctl-perf", False),
        ("kipctl-metadata", False),
        ("kipctl-metadata-0001", False),
        ("kipctl-perf-of-team-7", False),
        ("my-kipctl-perf-host-4711-0a1b2c", False),
        ("kipctl-perf-host-4711-0a1b2cd", False),
        ("", False),
    ],
)
def test_what_a_run_makes_is_known_by_its_name(topic: str, own: bool) -> None:
    assert is_own(topic) is own


def test_no_two_runs_have_the_same_name() -> None:
    names = {new_name("kipctl-perf") for _ in range(3)}
    assert len(names) == 3  # of 20 two are alike once in 88,000 runs, and were
    for name in names:
        assert is_own(name)
        check_topic(name)


def test_a_hosts_name_is_made_fit_for_a_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    for host, fit in [("ops_1.example.org", "ops-1"), ("", "host"), ("h" * 300, "h" * 40)]:
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        assert own_host() == fit
        assert is_own(new_name("kipctl-perf"))


def test_leftovers_are_those_of_dead_runs_and_those_of_other_hosts() -> None:
    dead, alive, elsewhere = (
        f"kipctl-perf-{host}-{pid}-0a1b2c" for host, pid in [("me", 1), ("me", 2), ("other", 1)]
    )
    shown = [alive, elsewhere, "kipctl-perf", "orders", dead]
    assert leftovers(shown, "me", lambda pid: pid == 2) == Leftovers((dead,), (elsewhere,))


class Topics:
    """As much of a cluster's topics as `own_topics` asks; `refuses` deleting."""

    def __init__(self, refuses: bool = False) -> None:
        self.there: dict[str, uuid.UUID] = {}
        self.deleted: list[str] = []
        self.awaited_gone: list[str] = []
        self.refuses = refuses
        self.access = self
        self.nodes = {1: None}

    def create(
        self,
        access: object,
        names: list[str],
        partitions: int,
        factor: int,
        may_exist: set[str],
        configs: object = None,
    ) -> None:
        self.there |= {name: uuid.uuid4() for name in names}
        may_exist.update(names)

    def delete(self, access: object, names: list[str]) -> None:
        if self.refuses:
            raise RefusedError("Topic 'x' cannot be removed: no right.", "Grant it.")
        self.deleted += names

    def await_gone(self, cluster: object, names: list[str]) -> None:
        self.awaited_gone = names if set(names) <= set(self.deleted) else []


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Iterator[Topics]:
    topics = Topics()
    monkeypatch.setattr(module, "create_topics", topics.create)
    monkeypatch.setattr(module, "delete_topics", topics.delete)
    monkeypatch.setattr(module, "await_no_topics", topics.await_gone)
    monkeypatch.setattr(module, "await_topics", lambda *_: dict(topics.there))
    monkeypatch.setattr(module, "topic_ids", lambda *_: topics.there)
    monkeypatch.setattr(module, "topics_named", lambda *_: topics.there)
    CleanupFailures.errors.clear()
    yield topics
    CleanupFailures.errors.clear()


def own(
    topics: Topics, *names: str, say: Callable[[str], None] = lambda _: None
) -> AbstractContextManager[Mapping[str, uuid.UUID]]:
    return own_topics(cast(Cluster, topics), names, 3, 1, say)


def test_a_runs_topics_are_removed_and_others_stay(topics: Topics) -> None:
    other = "kipctl-perf-elsewhere-1-0a1b2c"
    topics.there[other] = uuid.uuid4()
    said: list[str] = []
    with own(topics, "t1", "t2", say=said.append) as ids:
        assert {"t1", "t2"} <= ids.keys()
    assert topics.deleted == topics.awaited_gone == ["t1", "t2"]
    assert other in said[0]
    assert "may be under way" in said[0]
    assert said[1] == "Creating 2 topics: 3 partitions on 1 replica each, t1 to t2."


def test_what_somebody_else_has_made_anew_stays(topics: Topics) -> None:
    with own(topics, "t1", "t2"):
        topics.there["t2"] = uuid.uuid4()
    assert topics.deleted == ["t1"]


def test_a_run_that_cannot_make_all_of_its_topics_removes_those_there_are(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*asked: Any) -> None:
        asked[4].update(["t1"])
        raise RefusedError("Topic 't2' cannot be made: POLICY_VIOLATION.")

    monkeypatch.setattr(module, "create_topics", refused)
    with pytest.raises(RefusedError, match="POLICY_VIOLATION"), own(topics, "t1", "t2"):
        raise AssertionError("it began")
    assert topics.deleted == ["t1"]


def test_what_cannot_be_removed_takes_the_place_of_no_result_and_of_no_error(
    topics: Topics,
) -> None:
    topics.refuses = True
    with own(topics, "t1"):
        pass
    with pytest.raises(UnreachableError, match="The run broke off"), own(topics, "t1"):
        raise UnreachableError("The run broke off.")
    assert [str(left) for left in CleanupFailures.errors] == 2 * [
        "Topic t1 is still there, with the data: Topic 'x' cannot be removed: no right.\nGrant it."
    ]


def test_who_interrupts_the_removal_is_told_what_is_left(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "delete_topics", interrupted)
    with pytest.raises(KeyboardInterrupt), own(topics, "t1", "t2"):
        pass
    (left,) = CleanupFailures.errors
    assert left.what.startswith("Topics t1, t2 are still there, with the data")


def test_what_is_left_is_told_after_the_result_and_is_no_success(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever command it is: here one that makes topics instead of what it does."""
    topics.refuses = True

    def invoked(arguments: list[str], environment: Environment) -> int:
        with own(topics, "t1", say=environment.message):
            pass
        environment.message("the result")
        return ExitStatus.DONE

    monkeypatch.setattr("kipctl.cli.app._run", invoked)
    ran = in_this_process()
    assert ran.status == ExitStatus.PARTLY_DONE
    assert ran.err.splitlines()[-3:] == [
        "the result",
        "kipctl: Topic t1 is still there, with the data: Topic 'x' cannot be removed: no right.",
        "Grant it.",
    ]
