"""Where this machine has on record that kipctl switched a request log on, until it is off again.

The brokers tell their level, and not who set it. A kipctl that is killed, or whose machine is, can
switch nothing back: the record is what a later one warns by.
"""

import json
import os
import secrets
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from kipctl.cleanup_failures import CleanupFailures
from kipctl.counts import broker_list
from kipctl.errors import PartlyDoneError, RefusedError
from kipctl.next_step import Command
from kipctl.process import Process, current_process, is_alive
from kipctl.state import make_private, state_folder, write_private
from kipctl.typed_json import plain_json


@dataclass(frozen=True, slots=True)
class SwitchedOn:
    """A request log that was switched on at these brokers; times are seconds of the wall clock.

    `until` is None with --until-off. `owner` is the kipctl that is to switch it off.
    """

    cluster_id: str
    brokers: tuple[int, ...]
    since: float
    until: float | None
    host: str
    owner: Process
    path: Path

    def is_owner_alive(self, host: str, now: float) -> bool:
        """Whether the kipctl that has switched it on is still there to switch it off.

        Of another machine (they share the state folder) that is believed until its time is over.
        """
        if self.host == host:
            return is_alive(self.owner)
        return self.until is not None and now < self.until

    def remove_brokers(self, brokers: Collection[int]) -> None:
        """Take brokers off the record; remove the record when none is left.

        Where that cannot be done it is said after the result (`CleanupFailures`).
        """
        left = tuple(broker for broker in self.brokers if broker not in brokers)
        if left == self.brokers:
            return
        try:
            if left:
                _write(replace(self, brokers=left, path=_new_path(self.path.parent)))
            self.path.unlink(missing_ok=True)
        except OSError as failed:
            CleanupFailures.note(
                PartlyDoneError(
                    f"{self.path} still has on record that the request log is on at brokers that"
                    f" it is off at: {failed.strerror}.",
                    "When it can be written: " + Command("request-log status"),
                )
            )


def _folder(variables: Mapping[str, str]) -> Path:
    return state_folder(variables) / "request-log"


def _new_path(folder: Path) -> Path:
    return folder / f"{secrets.token_hex(8)}.json"


def record_switched_on(
    cluster_id: str,
    brokers: Iterable[int],
    seconds: float | None,
    variables: Mapping[str, str] = os.environ,
) -> SwitchedOn:
    """Write down what is about to be switched on, for so many seconds or (None) until it is off.

    Raises RefusedError when it cannot be written: then nothing may be switched on.
    """
    folder, now = _folder(variables), time.time()
    record = SwitchedOn(
        cluster_id,
        tuple(brokers),
        now,
        None if seconds is None else now + seconds,
        socket.gethostname(),
        current_process(),
        _new_path(folder),
    )
    try:
        make_private(folder, variables)
        _write(record)
    except OSError as failed:
        raise RefusedError(
            f"The request log was not switched on: that it is cannot be put on record in {folder}"
            f" ({failed.strerror}).",
            "Make room there, or let XDG_STATE_HOME name another folder.",
        ) from failed
    return record


def _write(record: SwitchedOn) -> None:
    document = {
        "cluster_id": record.cluster_id,
        "brokers": record.brokers,
        "since": record.since,
        "until": record.until,
        "host": record.host,
        "owner": [record.owner.pid, record.owner.started],
    }
    write_private(record.path, json.dumps(document).encode())


def read_records(
    cluster_ids: Collection[str], variables: Mapping[str, str] = os.environ
) -> tuple[SwitchedOn, ...]:
    """What is on record of these clusters, the oldest first; what cannot be read is left out."""
    records = []
    for path in _folder(variables).glob("*.json"):
        try:
            known = plain_json(path.read_text(encoding="utf-8"))
            owner = Process(*msgspec.convert(known.pop("owner"), tuple[int, str]))
            known["brokers"] = tuple(known["brokers"])
            record = SwitchedOn(**known, owner=owner, path=path)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
        if record.cluster_id in cluster_ids:
            records.append(record)
    return tuple(sorted(records, key=lambda record: record.since))


def record_switched_off(
    cluster_ids: Collection[str], off: Collection[int], variables: Mapping[str, str] = os.environ
) -> None:
    """The request log is off at these brokers of the cluster."""
    for record in read_records(cluster_ids, variables):
        record.remove_brokers(off)


def warning(records: Iterable[SwitchedOn], host: str, now: float) -> str:
    """What to say of request logs that nobody is there any more to switch off; "" of none."""
    left = [record for record in records if not record.is_owner_alive(host, now)]
    if not left:
        return ""
    brokers = sorted({broker for record in left for broker in record.brokers})
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(left[0].since))
    return (
        f"The request log was switched on at {broker_list(brokers)} of this cluster on {since},"
        " and is still on unless they have been restarted since.\nSwitch it off: "
        + Command("request-log off", broker=brokers)
    )
