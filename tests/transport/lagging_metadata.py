"""Metadata as brokers that are behind show it: what they knew some tenths of a second ago.

In a lab every broker knows of a change within milliseconds, so that a test meets one that does not
only by chance. With this, each broker answers this process with what it knew 0, 300 or 600 ms ago,
by its port. `KIPCTL_LAGGING_METADATA=1 pytest -m kafka` switches it on: a way to look for what
takes one broker's Metadata for the truth, and not part of `make test`: brokers count more requests
then, and a process beside this one is not behind.
"""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from kipctl.errors import KipctlError
from kipctl.protocol.address import Address
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import R, Request, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
    metadata_request,
)
from kipctl.transport.access import Access
from kipctl.transport.request import BrokerConnection

LAGS_S = (0.0, 0.3, 0.6)
WATCHER = "kipctl-lagging-metadata"
_POLL_S = 0.05
_KEPT_S = 2.0
_FLEXIBLE_SINCE = 9
_LEAST_VERSION = 4


class Broker:
    """What a broker has shown of all topics within the last seconds."""

    def __init__(self, address: Address, access: Access) -> None:
        self.lag_s = LAGS_S[address.port % len(LAGS_S)]
        self._connection = BrokerConnection(*address, WATCHER, 5, access)
        self._shown: list[tuple[float, MetadataResponse]] = []
        self._thread: threading.Thread | None = None

    def past(self) -> MetadataResponse | None:
        """What it showed when it was as far behind; None while that is not known."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        now = time.monotonic()
        due = [shown for at, shown in self._shown if now - _KEPT_S < at <= now - self.lag_s]
        return due[-1] if due else None

    def _watch(self) -> None:
        with self._connection as connection:
            while True:
                try:
                    shown = connection.request(metadata_request(None))
                except KipctlError:
                    return
                now = time.monotonic()
                kept = [entry for entry in self._shown if entry[0] > now - _KEPT_S]
                self._shown = [*kept, (now, shown)]
                time.sleep(_POLL_S)  # how often a broker is looked at; no test waits for it


def switch_on(patch: pytest.MonkeyPatch) -> None:
    """Brokers without TLS and logins are behind, until the patch is undone."""
    brokers: dict[Address, Broker] = {}
    answer_now: Any = BrokerConnection._answer

    def answer(self: BrokerConnection, request: Request[R], version: int) -> bytes:
        frame: bytes = answer_now(self, request, version)
        security = self.access.security
        is_watched = not (security.tls or security.sasl or self.client_id == WATCHER)
        if not isinstance(request, MetadataRequest) or not is_watched or version < _LEAST_VERSION:
            return frame
        broker = brokers.setdefault(self.address, Broker(self.address, self.access))
        past = broker.past()
        if past is None or not broker.lag_s:
            return frame
        tags = b"\0" if version >= _FLEXIBLE_SINCE else b""
        return frame[:4] + tags + encode(_of(past, request), version)

    patch.setattr(BrokerConnection, "_answer", answer)


def _of(past: MetadataResponse, request: MetadataRequest) -> MetadataResponse:
    if request.topics is None:
        return past
    known = {topic.name: topic for topic in past.topics}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    names = (topic.name for topic in request.topics)
    asked = (known.get(name) or MetadataResponseTopic(unknown, name) for name in names)
    return replace(past, topics=tuple(asked))
