"""Many brokers asked at once: one that hangs, or is not there, stops no other."""

import threading
import time
from typing import cast

import pytest

from kipctl.at_once import AT_ONCE, LateError
from kipctl.errors import KipctlError, RefusedError, UnreachableError
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster


class Brokers:
    """As much of a cluster as is asked; broker 99 is not in its Metadata."""

    def broker(self, broker: int) -> int:
        if broker == 99:
            raise UnreachableError("Broker 99 is not in the cluster's Metadata.")
        return -broker


CLUSTER = cast(Cluster, Brokers())


def test_each_answer_is_its_brokers_and_who_fails_is_an_error() -> None:
    def ask(broker: int, connection: BrokerConnection) -> int:
        if broker == 2:
            raise RefusedError("no")
        return cast(int, connection)

    answers = ask_each(CLUSTER, [3, 99, 2, 1], ask, deadline_s=60)
    assert list(answers) == [3, 99, 2, 1]
    assert (answers[3], answers[1]) == (-3, -1)
    assert isinstance(answers[2], RefusedError)
    assert isinstance(answers[99], UnreachableError)
    assert ask_each(CLUSTER, [], ask, deadline_s=60) == {}


def test_they_are_asked_at_the_same_time() -> None:
    """None of them answers before all of them are asked."""
    all_are_asked = threading.Barrier(AT_ONCE)

    def ask(broker: int, connection: BrokerConnection) -> int:
        all_are_asked.wait()
        return broker

    brokers = range(AT_ONCE)
    assert ask_each(CLUSTER, brokers, ask, deadline_s=60) == {broker: broker for broker in brokers}


def test_those_behind_one_address_share_its_connection_in_turn() -> None:
    """One after the other, whatever threads do."""

    class Forwarded(Brokers):
        def broker(self, broker: int) -> int:
            return broker % 2

    asked: list[int] = []
    at_work: set[int] = set()

    def ask(broker: int, connection: BrokerConnection) -> None:
        at = cast(int, connection)
        assert at not in at_work
        at_work.add(at)
        time.sleep(0.01)  # another thread, were there one, would come meanwhile
        at_work.remove(at)
        asked.append(broker)

    ask_each(cast(Cluster, Forwarded()), range(8), ask, deadline_s=60)
    assert sorted(asked) == [*range(8)]


def test_after_the_deadline_who_hangs_is_late_and_waited_for_no_longer() -> None:
    goes_on = threading.Event()

    def ask(broker: int, connection: BrokerConnection) -> bool:
        return goes_on.wait()

    try:
        answers: dict[int, bool | KipctlError] = ask_each(CLUSTER, [1, 99], ask, deadline_s=0.5)
    finally:
        goes_on.set()
    assert isinstance(answers[1], LateError)
    assert "0.5 s for all brokers" in answers[1].what
    assert isinstance(answers[99], UnreachableError)


def test_after_the_deadline_nobody_else_is_asked() -> None:
    goes_on, asked = threading.Event(), []
    all_are_asked = threading.Barrier(AT_ONCE + 1)

    def ask(broker: int, connection: BrokerConnection) -> None:
        asked.append(broker)
        all_are_asked.wait()
        goes_on.wait()

    before = {*threading.enumerate()}
    ask_each(CLUSTER, range(2 * AT_ONCE), ask, deadline_s=0.5)
    threads = {*threading.enumerate()} - before
    all_are_asked.wait()
    goes_on.set()
    for thread in threads:
        thread.join()
    assert sorted(asked) == [*range(AT_ONCE)]


def test_a_fault_is_a_fault() -> None:
    def ask(broker: int, connection: BrokerConnection) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask_each(CLUSTER, [1], ask, deadline_s=60)
