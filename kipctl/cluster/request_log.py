"""The brokers' request log, switched on and off while they run.

Kafka's `kafka.request.logger` writes a line for each request that a broker has answered while its
level is DEBUG or lower. A level is asked of, and set by, the very broker (KIP-412). It is not
saved: a broker that restarts has the level of its log4j file again.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from kipctl.at_once import LateError
from kipctl.counts import broker_list, counted
from kipctl.errors import (
    InterruptedRunError,
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey
from kipctl.protocol.describe_configs import ResourceType, configs_request
from kipctl.protocol.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kipctl.transport.acl_errors import refusal
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

_DEADLINE_S = 30.0
"""For all brokers together: they are asked at the same time."""

Progress = Callable[[str], None]

Ended = Callable[[float], bool]
"""Waits up to so many seconds for the user to end it, and tells whether that has happened."""

LOGGER = "kafka.request.logger"
ON_LEVEL = "DEBUG"
OFF_LEVEL = "WARN"
"""The level in the log4j files that come with Kafka. Deleting the level instead would leave what
the root logger has, which may be DEBUG."""


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A broker's level of the logger, and the one it had before; None where it did not report."""

    broker: int
    before: str | None
    level: str | None
    error: KipctlError | None = None


def is_on(level: str | None) -> bool:
    """Whether each request is logged at this level of the logger (Kafka's `RequestChannel`)."""
    return level in ("DEBUG", "TRACE", "ALL")


def chosen_brokers(cluster: Cluster, asked: Iterable[int]) -> tuple[int, ...]:
    """These brokers, or all when none is named; sorted.

    Raises UsageError for one that the cluster does not list: it does not exist, or is down.
    """
    wanted = sorted(set(asked))
    alive = sorted(cluster.nodes)
    for broker in wanted:
        if broker not in alive:
            raise UsageError(
                f"The cluster lists no broker {broker}; it lists {', '.join(map(str, alive))}.",
                "Check --broker, and that the broker is running.",
            )
    return tuple(wanted or alive)


def _level(broker: int, connection: BrokerConnection) -> str:
    asked = configs_request(ResourceType.BROKER_LOGGER, [str(broker)], [LOGGER])
    for result in connection.request(asked).results:
        _raise_for(
            f"Broker {broker} does not report",
            connection,
            ApiKey.DESCRIBE_CONFIGS,
            result.error_code,
            result.error_message,
        )
        if (level := result.values.get(LOGGER)) is not None:
            return level
    raise RefusedError(
        f"Broker {broker} has no logger named {LOGGER}.", "Look into its log4j file."
    )


def set_level(cluster: Cluster, broker: int, level: str) -> None:
    """Set the broker's level. Raises RefusedError, UnreachableError and TimedOutError."""
    _set(broker, cluster.broker(broker), level)


def _set(broker: int, connection: BrokerConnection, level: str) -> None:
    configs = (AlterableConfig(name=LOGGER, value=level),)
    response = connection.request(
        IncrementalAlterConfigsRequest(
            resources=(AlterConfigsResource(ResourceType.BROKER_LOGGER, str(broker), configs),)
        )
    )
    for result in response.responses:
        _raise_for(
            f"Broker {broker} does not set",
            connection,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            result.error_code,
            result.error_message,
        )


def _raise_for(
    what: str, connection: BrokerConnection, request: ApiKey, code: int, message: str | None
) -> None:
    if code:
        what = f"{what} the level of {LOGGER}"
        raise refusal(what, code, request, connection.access, broker_message=message)


def read_levels(cluster: Cluster, brokers: Iterable[int]) -> tuple[LoggerLevel, ...]:
    """Each broker's level, or why it did not report."""

    def reported(broker: int, connection: BrokerConnection) -> LoggerLevel:
        level = _level(broker, connection)
        return LoggerLevel(broker, level, level)

    return _each(cluster, brokers, reported)


def levels_of(cluster: Cluster, brokers: Iterable[int]) -> dict[int, str]:
    """Each broker's level. Raises the error of the first that did not report."""
    levels = {}
    for level in read_levels(cluster, brokers):
        if level.error:
            raise level.error
        levels[level.broker] = level.level or ""
    return levels


def switch_off(cluster: Cluster, brokers: Iterable[int]) -> tuple[LoggerLevel, ...]:
    """Switch the request log off at each of these brokers; one that fails stops no other."""

    def off(broker: int, connection: BrokerConnection) -> LoggerLevel:
        level = _level(broker, connection)
        if not is_on(level):
            return LoggerLevel(broker, level, level)
        _set(broker, connection, OFF_LEVEL)
        return LoggerLevel(broker, level, OFF_LEVEL)

    return _each(cluster, brokers, off)


def _each(
    cluster: Cluster,
    brokers: Iterable[int],
    act: Callable[[int, BrokerConnection], LoggerLevel],
) -> tuple[LoggerLevel, ...]:
    """What came of it at each broker; all are asked at the same time."""
    return tuple(
        LoggerLevel(broker, None, None, answer) if isinstance(answer, KipctlError) else answer
        for broker, answer in ask_each(cluster, brokers, act, _DEADLINE_S).items()
    )


def switch_on(cluster: Cluster, levels: Mapping[int, str], ended: Ended) -> tuple[LoggerLevel, ...]:
    """Switch the request log on at all of these brokers, or at none.

    `levels` are the brokers' own, as just read; one that is on already is left alone. When a broker
    fails, or the user ends it, those switched on are switched off again before the error, or
    InterruptedRunError, is raised; PartlyDoneError when one of them cannot be.
    """
    switched: list[LoggerLevel] = []
    try:
        for broker, level in levels.items():
            if ended(0):
                raise InterruptedRunError("Interrupted.")
            if is_on(level):
                switched.append(LoggerLevel(broker, level, level))
                continue
            # On the list before it is asked: when it does not answer, it may have done it.
            switched.append(LoggerLevel(broker, level, ON_LEVEL))
            set_level(cluster, broker, ON_LEVEL)
        if ended(0):
            raise InterruptedRunError("Interrupted.")
    except BaseException as error:
        if isinstance(error, RefusedError):
            switched.pop()
        require_all_restored(restore_levels(cluster, switched))
        if isinstance(error, KipctlError):
            error.what += " The request log is as it was at every broker."
        raise
    return tuple(switched)


def wait_while_on(
    switched: Sequence[LoggerLevel], seconds: float, ended: Ended, tell: Progress
) -> bool:
    """Wait while the request log is on; tell ten times how long still. True when it was ended."""
    where = broker_list([level.broker for level in switched])
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        tell(f"The request log is on at {where}, for {left_s:.0f} s")
        if ended(min(left_s, max(1.0, seconds / 10))):
            return True
    return False


def restore_levels(cluster: Cluster, switched: Iterable[LoggerLevel]) -> tuple[LoggerLevel, ...]:
    """Give the brokers back the level they had before; one that fails stops no other.

    One that was on before stays on. One that does not answer is asked once more.
    """
    now = {level.broker: level for level in switched}

    def back(broker: int, connection: BrokerConnection) -> LoggerLevel:
        before = now[broker].before
        assert before is not None
        _set(broker, connection, before)
        return LoggerLevel(broker, before, before)

    reported = (level for level in now.values() if level.before is not None)
    left = [level.broker for level in reported if not is_on(level.before)]
    for _ in range(2):
        if not left:
            break
        for level in _each(cluster, left, back):
            now[level.broker] = replace(level, before=now[level.broker].before)
        left = [broker for broker in left if _may_be_elsewhere(now[broker].error)]
        if left:
            with suppress(KipctlError):
                cluster.metadata(())
    return tuple(now.values())


def _may_be_elsewhere(error: KipctlError | None) -> bool:
    """A broker that has restarted may have another address."""
    return isinstance(error, (UnreachableError, TimedOutError)) and not isinstance(error, LateError)


def require_all_restored(switched_back: Iterable[LoggerLevel]) -> None:
    """Raise PartlyDoneError, which names the brokers, when one could not be switched off."""
    left = [level for level in switched_back if level.error]
    if left:
        raise PartlyDoneError(
            f"The request log is STILL ON at {broker_list([level.broker for level in left])},"
            f" unless restarted since. {_reason(left)}",
            "Switch it off: " + _command("off", left),
        )


def require_all_reported(levels: Sequence[LoggerLevel], action: str) -> None:
    """Raise PartlyDoneError when some brokers failed, the first broker's error when all did.

    `action` is that of `kipctl request-log`, to be repeated.
    """
    failed = [level for level in levels if level.error]
    if not failed:
        return
    if len(failed) == len(levels) and failed[0].error:
        raise failed[0].error
    raise PartlyDoneError(
        f"{counted(len(failed), 'broker', total=len(levels))} failed. {_reason(failed)}",
        _grant(failed) + "Try again: " + _command(action, failed),
    )


def _grant(failed: Sequence[LoggerLevel]) -> str:
    """What grants the right that the first of them lacked, as a line before others."""
    error = failed[0].error
    return f"{error.next_step}\n" if isinstance(error, RefusedError) and error.next_step else ""


def _reason(failed: Sequence[LoggerLevel]) -> str:
    return failed[0].error.what if failed[0].error else ""


def _command(action: str, levels: Iterable[LoggerLevel]) -> Command:
    return Command(f"request-log {action}", broker=[level.broker for level in levels])
