"""The request log's switch without a cluster: who is switched on, and back off."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from kipctl.cluster.request_log import (
    LoggerLevel,
    chosen_brokers,
    is_on,
    levels_of,
    read_levels,
    require_all_reported,
    require_all_restored,
    restore_levels,
    switch_off,
    switch_on,
    wait_while_on,
)
from kipctl.errors import (
    InterruptedRunError,
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.protocol.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

Fails = Callable[[int, str], KipctlError | None]


class Brokers:
    """Brokers with a level each; `fails` says what setting one to a level ends in."""

    def __init__(self, levels: dict[int, str], fails: Fails = lambda broker, level: None) -> None:
        self.levels = dict(levels)
        self.nodes = dict.fromkeys(levels)
        self.fails = fails
        self.set: list[tuple[int, str]] = []

    def metadata(self, topics: object) -> None:
        pass

    def broker(self, broker: int) -> "Connection":
        return Connection(self, broker)


class Connection:
    def __init__(self, brokers: Brokers, broker: int) -> None:
        self.brokers, self.broker = brokers, broker
        self.access = Access("b:1", Security(sasl=Sasl("PLAIN", "alice", "secret")))

    def request(self, request: Any) -> Any:
        (resource,) = request.resources
        assert (resource.resource_type, resource.resource_name) == (8, str(self.broker))
        if isinstance(request, DescribeConfigsRequest):
            if self.broker not in self.brokers.levels:
                denied = DescribeConfigsResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                return DescribeConfigsResponse(results=(denied,))
            (name,) = resource.configuration_keys or ()
            config = DescribeConfigsResourceResult(name, self.brokers.levels[self.broker])
            return DescribeConfigsResponse(results=(DescribeConfigsResult(configs=(config,)),))
        (config,) = resource.configs
        assert config.name == "kafka.request.logger"
        self.brokers.set.append((self.broker, config.value))
        code, message = 0, ""
        match self.brokers.fails(self.broker, config.value):
            case RefusedError() as error:
                code, message = ErrorCode.INVALID_CONFIG, error.what
            case TimedOutError() as error:  # done, though nobody hears of it
                self.brokers.levels[self.broker] = config.value
                raise error
            case KipctlError() as error:
                raise error
            case None:
                self.brokers.levels[self.broker] = config.value
        response = AlterConfigsResourceResponse(code, message)
        return IncrementalAlterConfigsResponse(responses=(response,))


def as_cluster(brokers: Brokers) -> Cluster:
    return cast(Cluster, brokers)


def on(brokers: Brokers, ended: Callable[[float], bool] = lambda _: False) -> list[str]:
    switched = switch_on(as_cluster(brokers), dict(brokers.levels), ended)
    return [str(logger.level) for logger in switched]


@pytest.mark.parametrize(
    ("level", "on"),
    [
        ("TRACE", True),
        ("DEBUG", True),
        ("ALL", True),
        ("INFO", False),
        ("WARN", False),
        ("ERROR", False),
        ("FATAL", False),
        ("OFF", False),
        (None, False),
    ],
)
def test_from_debug_down_each_request_is_logged(level: str | None, on: bool) -> None:
    assert is_on(level) is on


@pytest.mark.parametrize(("asked", "chosen"), [((), (1, 2, 3)), ((2,), (2,)), ((3, 1, 3), (1, 3))])
def test_all_brokers_unless_some_are_named(asked: tuple[int, ...], chosen: tuple[int, ...]) -> None:
    brokers = Brokers({3: "WARN", 1: "WARN", 2: "WARN"})
    assert chosen_brokers(as_cluster(brokers), asked) == chosen


def test_a_broker_that_is_not_there_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"lists no broker 7; it lists 1, 2\."):
        chosen_brokers(as_cluster(Brokers({1: "WARN", 2: "WARN"})), [1, 7])


def test_on_and_back_leave_those_alone_that_were_on() -> None:
    before = {1: "WARN", 2: "TRACE", 3: "INFO", 4: "DEBUG"}
    brokers = Brokers(before)
    switched = switch_on(as_cluster(brokers), before, lambda _: False)
    assert brokers.levels == {1: "DEBUG", 2: "TRACE", 3: "DEBUG", 4: "DEBUG"}
    back = restore_levels(as_cluster(brokers), switched)
    assert brokers.levels == before
    assert [(logger.broker, logger.before, logger.level) for logger in back] == [
        (1, "WARN", "WARN"),
        (2, "TRACE", "TRACE"),
        (3, "INFO", "INFO"),
        (4, "DEBUG", "DEBUG"),
    ]
    require_all_restored(back)


@pytest.mark.parametrize(
    ("error", "set_after"),
    [
        (RefusedError("not allowed"), [(1, "WARN")]),
        (UnreachableError("gone"), [(1, "WARN"), (2, "INFO")]),
        (TimedOutError("silent"), [(1, "WARN"), (2, "INFO")]),
    ],
)
def test_when_one_broker_fails_those_before_it_are_switched_off_again(
    error: KipctlError, set_after: list[tuple[int, str]]
) -> None:
    """One that did not answer may have switched it on, so it is told to switch it off too."""
    before = {1: "WARN", 2: "INFO", 3: "WARN"}
    brokers = Brokers(
        before, lambda broker, level: error if (broker, level) == (2, "DEBUG") else None
    )
    with pytest.raises(type(error)) as failed:
        on(brokers)
    assert failed.value.what.endswith("The request log is as it was at every broker.")
    assert brokers.levels == before
    assert brokers.set[:2] == [(1, "DEBUG"), (2, "DEBUG")]
    assert sorted(brokers.set[2:]) == set_after


@pytest.mark.parametrize("last", [1, 2])
def test_who_ends_it_while_brokers_are_switched_on_has_none_on(last: int) -> None:
    brokers = Brokers({1: "WARN", 2: "WARN"})
    with pytest.raises(InterruptedRunError, match="as it was at every broker"):
        on(brokers, ended=lambda _: brokers.levels[last] == "DEBUG")
    assert brokers.levels == {1: "WARN", 2: "WARN"}


def test_a_fault_in_between_leaves_none_on() -> None:
    brokers = Brokers({1: "WARN", 2: "WARN"})

    def ended(seconds: float) -> bool:
        if brokers.set:
            raise ZeroDivisionError
        return False

    with pytest.raises(ZeroDivisionError):
        on(brokers, ended)
    assert brokers.levels == {1: "WARN", 2: "WARN"}


def test_a_broker_that_cannot_be_switched_off_is_named_and_stops_no_other() -> None:
    def fails(broker: int, level: str) -> KipctlError | None:
        return UnreachableError("Broker b:1 hangs.") if (broker, level) == (1, "WARN") else None

    brokers = Brokers({1: "WARN", 2: "WARN"}, fails)
    switched = switch_on(as_cluster(brokers), dict(brokers.levels), lambda _: False)
    back = restore_levels(as_cluster(brokers), switched)
    assert sorted(brokers.set[2:]) == [(1, "WARN"), (1, "WARN"), (2, "WARN")]
    assert brokers.levels == {1: "DEBUG", 2: "WARN"}
    with pytest.raises(PartlyDoneError) as failed:
        require_all_restored(back)
    assert str(failed.value) == (
        "The request log is STILL ON at broker 1, unless restarted since. Broker b:1 hangs.\n"
        "Switch it off: kipctl request-log off --broker 1"
    )


def test_brokers_are_switched_back_at_the_same_time() -> None:
    """Twenty that hang would be waited for one after the other."""
    all_are_asked = threading.Barrier(20)

    def fails(broker: int, level: str) -> KipctlError | None:
        all_are_asked.wait()
        return None

    brokers = Brokers(dict.fromkeys(range(20), "DEBUG"), fails)
    back = restore_levels(as_cluster(brokers), [LoggerLevel(b, "WARN", "DEBUG") for b in range(20)])
    assert [logger.level for logger in back] == ["WARN"] * 20


def test_one_answer_lost_is_no_failure() -> None:
    lost = iter([TimedOutError("silent")])
    brokers = Brokers({1: "DEBUG"}, lambda broker, level: next(lost, None))
    (back,) = restore_levels(as_cluster(brokers), [LoggerLevel(1, "WARN", "DEBUG")])
    assert (back.level, back.error, brokers.levels) == ("WARN", None, {1: "WARN"})


def test_off_is_the_level_kafka_comes_with_and_quieter_levels_stay() -> None:
    brokers = Brokers({1: "DEBUG", 2: "ERROR", 3: "TRACE", 4: "INFO"})
    switched = switch_off(as_cluster(brokers), brokers.levels)
    assert brokers.levels == {1: "WARN", 2: "ERROR", 3: "WARN", 4: "INFO"}
    assert [logger.before for logger in switched] == ["DEBUG", "ERROR", "TRACE", "INFO"]
    assert [entry.level for entry in read_levels(as_cluster(brokers), (1, 2))] == ["WARN", "ERROR"]


def test_a_level_that_is_not_told_is_an_error() -> None:
    brokers = Brokers({1: "INFO", 2: "WARN"})
    assert levels_of(as_cluster(brokers), (2, 1)) == {2: "WARN", 1: "INFO"}
    with pytest.raises(RefusedError) as refused:
        levels_of(as_cluster(brokers), (1, 3))
    assert refused.value.what == (
        "Broker 3 does not report the level of kafka.request.logger: User:alice has no right to"
        " DescribeConfigs on the Cluster (CLUSTER_AUTHORIZATION_FAILED)."
    )
    grant = refused.value.next_step
    assert grant.startswith("Grant it: kafka-acls --bootstrap-server b:1 ")
    assert grant.endswith("--allow-principal User:alice --operation DescribeConfigs --cluster")


def test_of_some_brokers_that_refuse_it_is_said_what_grants_the_right() -> None:
    brokers = Brokers({1: "INFO"})
    with pytest.raises(PartlyDoneError) as partly:
        require_all_reported(read_levels(as_cluster(brokers), (1, 3)), "status")
    grant, again = partly.value.next_step.splitlines()
    assert grant.startswith("Grant it: kafka-acls ")
    assert again == "Try again: kipctl request-log status --broker 3"


def test_brokers_that_fail_to_switch_off_are_counted_against_the_others() -> None:
    def fails(broker: int, level: str) -> KipctlError | None:
        return RefusedError("no") if broker in (2, 3) else None

    brokers = Brokers({1: "DEBUG", 2: "DEBUG", 3: "DEBUG"}, fails)
    with pytest.raises(PartlyDoneError) as partly:
        require_all_reported(switch_off(as_cluster(brokers), (1, 2, 3)), "off")
    assert str(partly.value) == (
        "2 of 3 brokers failed. Broker 2 does not set the level of kafka.request.logger:"
        " INVALID_CONFIG (no).\nTry again: kipctl request-log off --broker 2 --broker 3"
    )
    with pytest.raises(RefusedError, match="Broker 2 does not set"):
        require_all_reported(switch_off(as_cluster(brokers), (2, 3)), "off")
    require_all_reported(switch_off(as_cluster(brokers), (1,)), "off")


def test_waiting_ends_when_asked_to_and_when_the_time_is_over() -> None:
    asked: list[float] = []
    told: list[str] = []

    def third_time(seconds: float) -> bool:
        asked.append(seconds)
        return len(asked) == 3

    levels = [LoggerLevel(1, "WARN", "DEBUG"), LoggerLevel(2, "WARN", "DEBUG")]
    assert wait_while_on(levels, 300.0, third_time, told.append)
    assert asked == [30.0] * 3
    assert told[0] == "The request log is on at brokers 1, 2, for 300 s"
    assert not wait_while_on(levels, 1e-9, third_time, told.append)
