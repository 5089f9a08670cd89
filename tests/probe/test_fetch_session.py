"""What a fetch session is told (KIP-227), by table."""

import pytest

from kipctl.probe.consume.fetch_session import FetchPosition, FetchSession, SessionRequest
from kipctl.protocol.error_codes import ErrorCode

A, B = FetchPosition(10, 3), FetchPosition(20, 3)
BOTH = {"a": A, "b": B}


def opened() -> FetchSession[str]:
    """A session of a and b that the broker numbered 77."""
    session: FetchSession[str] = FetchSession()
    session.next_request(BOTH)
    assert session.handle_response(0, 77)
    return session


def test_the_first_request_names_everything_and_asks_for_a_session() -> None:
    session: FetchSession[str] = FetchSession()
    assert session.next_request(BOTH) == SessionRequest(0, 0, BOTH, ())
    assert set(session.partitions) == {"a", "b"}


@pytest.mark.parametrize(
    ("wanted", "send", "forget"),
    [
        (BOTH, {}, set()),
        ({"a": FetchPosition(11, 3), "b": B}, {"a": FetchPosition(11, 3)}, set()),
        ({"a": FetchPosition(10, 4), "b": B}, {"a": FetchPosition(10, 4)}, set()),
        ({"b": B}, {}, {"a"}),
        ({"b": B, "c": A}, {"c": A}, {"a"}),
        ({}, {}, {"a", "b"}),
    ],
)
def test_a_session_is_told_only_what_is_new_or_gone(
    wanted: dict[str, FetchPosition], send: dict[str, FetchPosition], forget: set[str]
) -> None:
    session = opened()
    asked = session.next_request(wanted)
    assert (asked.session_id, asked.session_epoch) == (77, 1)
    assert (dict(asked.send), set(asked.forget)) == (send, forget)
    assert set(session.partitions) == set(wanted)


def test_what_was_told_once_is_not_told_again() -> None:
    session = opened()
    session.next_request({"b": B, "c": A})
    assert session.handle_response(0, 77)
    assert session.next_request({"b": B, "c": A}) == SessionRequest(77, 2, {}, set())


def test_a_partition_that_was_forgotten_is_told_anew() -> None:
    session = opened()
    session.next_request({"b": B})
    session.handle_response(0, 77)
    assert session.next_request(BOTH).send == {"a": A}


@pytest.mark.parametrize(
    ("error", "session_id", "next_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, 77),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0, 77),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 0, 77),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77, 77),
    ],
)
def test_after_an_error_the_next_request_is_full_and_replaces_a_session_that_may_be_there(
    error: int, session_id: int, next_id: int
) -> None:
    session = opened()
    session.next_request(BOTH)
    assert not session.handle_response(error, session_id)
    assert session.next_request(BOTH) == SessionRequest(next_id, 0, BOTH, ())
    assert session.handle_response(0, 78)
    assert session.next_request({"a": A}) == SessionRequest(78, 1, {}, {"b"})


def test_a_request_without_an_answer_is_followed_by_a_full_one() -> None:
    session = opened()
    session.next_request({"a": A})
    session.reset()
    assert session.next_request(BOTH) == SessionRequest(77, 0, BOTH, ())


@pytest.mark.parametrize("in_session", [False, True])
def test_a_broker_that_keeps_no_session_or_closes_it_is_always_told_everything(
    in_session: bool,
) -> None:
    session = opened() if in_session else FetchSession[str]()
    session.next_request(BOTH)
    assert session.handle_response(0, 0)
    assert session.next_request(BOTH) == SessionRequest(0, 0, BOTH, ())


def test_the_epoch_begins_again_at_1_after_its_greatest_value() -> None:
    session = opened()
    session._epoch = 0x7FFFFFFF
    assert session.next_request(BOTH).session_epoch == 0x7FFFFFFF
    session.handle_response(0, 77)
    assert session.next_request(BOTH).session_epoch == 1


def test_the_last_request_closes_the_session_that_the_broker_keeps() -> None:
    assert FetchSession[str]().closing_request() is None
    assert opened().closing_request() == SessionRequest(77, -1, {}, ())
