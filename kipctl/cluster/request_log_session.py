"""The request log switched on with a record of it, so that who finds it on knows since when."""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kipctl.cluster.request_log import (
    Ended,
    LoggerLevel,
    Progress,
    is_on,
    restore_levels,
    switch_on,
    wait_while_on,
)
from kipctl.cluster.request_log_record import record_switched_off, record_switched_on
from kipctl.errors import PartlyDoneError
from kipctl.transport.request import Cluster


class WasOn(NamedTuple):
    """What the levels are after the log was on for so many `seconds`, and whether that was cut
    short."""

    levels: tuple[LoggerLevel, ...]
    seconds: float
    was_ended: bool


def switch_on_recorded(
    cluster: Cluster,
    levels: Mapping[int, str],
    seconds: float | None,
    ended: Ended,
    variables: Mapping[str, str],
) -> tuple[LoggerLevel, ...]:
    """Switch it on at the brokers of these `levels`, with a record of it that is written before.

    `seconds` is for how long, None for until it is switched off; `variables` say where the record
    is. Raises what `switch_on` and `record_switched_on` do.
    """
    off = [broker for broker, level in levels.items() if not is_on(level)]
    cluster_id = next(iter(cluster.access.ids), "")
    record = record_switched_on(cluster_id, off, seconds, variables) if off else None
    try:
        return switch_on(cluster, levels, ended)
    except PartlyDoneError:  # somewhere it is still on
        raise
    except BaseException:
        if record:
            record.remove_brokers(off)
        raise


def on_for(
    cluster: Cluster,
    levels: Mapping[int, str],
    seconds: float,
    ended: Ended,
    tell: Progress,
    variables: Mapping[str, str],
) -> WasOn:
    """Switch it on, wait so long or until it is `ended`, and switch it off, whatever happens.

    Raises what `switch_on_recorded` does; what could not be switched off is in the levels.
    """
    started = time.monotonic()
    switched = switch_on_recorded(cluster, levels, seconds, ended, variables)
    try:
        was_ended = wait_while_on(switched, seconds, ended, tell)
    finally:
        on_s = time.monotonic() - started
        now = restore_levels(cluster, switched)
        forget_switched_off(cluster, now, variables)
    return WasOn(now, on_s, was_ended)


def forget_switched_off(
    cluster: Cluster, levels: Iterable[LoggerLevel], variables: Mapping[str, str]
) -> None:
    """Take those brokers off the record at which it is off."""
    off = [level.broker for level in levels if level.level is not None and not is_on(level.level)]
    record_switched_off(cluster.access.ids, off, variables)
