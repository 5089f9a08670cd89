"""Fetch sessions (KIP-227): what a Fetch request has to say to a broker that remembers, pure."""

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from kipctl.protocol.error_codes import ErrorCode

AnyPartition = TypeVar("AnyPartition", bound=Hashable)

_NO_SESSION = 0
_FIRST_EPOCH = 0
_FINAL_EPOCH = -1
_SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class FetchPosition(NamedTuple):
    """Where to read a partition on, and the leader epoch that the reader believes in."""

    offset: int
    leader_epoch: int


class SessionRequest(NamedTuple, Generic[AnyPartition]):
    """A request: partitions that are new or changed, and those to forget."""

    session_id: int
    session_epoch: int
    send: Mapping[AnyPartition, FetchPosition]
    forget: Collection[AnyPartition]


class FetchSession(Generic[AnyPartition]):
    """One broker's session: at most one request under way (Java's FetchSessionHandler).

    A full request (epoch 0) opens a session; after that only what has changed is sent.
    """

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[AnyPartition, FetchPosition] = {}

    @property
    def partitions(self) -> Collection[AnyPartition]:
        """What the broker reads for us, as of the last request."""
        return self._known.keys()

    def next_request(
        self, wanted: Mapping[AnyPartition, FetchPosition]
    ) -> SessionRequest[AnyPartition]:
        """The request that makes the broker read just these partitions."""
        known, self._known = self._known, dict(wanted)
        if self._epoch == _FIRST_EPOCH:
            return SessionRequest(self._id, self._epoch, wanted, ())
        send = {p: want for p, want in wanted.items() if known.get(p) != want}
        return SessionRequest(self._id, self._epoch, send, known.keys() - wanted.keys())

    def handle_response(self, error: int, session_id: int) -> bool:
        """Take an answer; returns whether it can be used. If not, the next request is full."""
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id, self._epoch = _NO_SESSION, _FIRST_EPOCH
        elif error:
            self._epoch = _FIRST_EPOCH
        elif session_id == _NO_SESSION:  # the broker keeps none for us, or has closed it
            self._id, self._epoch = _NO_SESSION, _FIRST_EPOCH
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch >= 0x7FFFFFFF else self._epoch + 1
        return not error

    def is_evicted(self, error: int) -> bool:
        """Whether that error, in answer to the last request, says that the broker has dropped the
        session, as its cache is full: the next request, which is full, need not wait (Java's
        `AbstractFetch` has no backoff there). To be asked before `handle_response`.
        """
        return self._epoch != _FIRST_EPOCH and error in _SESSION_ERRORS

    def closing_request(self) -> SessionRequest[AnyPartition] | None:
        """The request after which the broker keeps no session for us; None if it keeps none."""
        return SessionRequest(self._id, _FINAL_EPOCH, {}, ()) if self._id != _NO_SESSION else None

    def reset(self) -> None:
        """No answer came: open a new session, which replaces the old one."""
        self._epoch = _FIRST_EPOCH
