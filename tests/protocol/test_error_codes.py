"""Error codes: the numbers, names and retriability of Kafka, and codes that are newer than ours."""

import pickle

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from kipctl.protocol.error_codes import ErrorCode, error_name, error_text


def test_numbers_names_and_retriability_are_those_of_kafka():
    of_kafka_4_4 = [
        ("GROUP_DELETION_FAILED", 134, False),
        ("STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", 135, False),
        ("CONTROLLER_ID_NOT_REGISTERED", 136, False),
    ]
    of_kio = [(error.name.upper(), int(error), error.retriable) for error in KioErrorCode]
    ours = [(error.name, int(error), error.retriable) for error in ErrorCode]
    assert ours == of_kio + of_kafka_4_4


def test_every_message_is_short_and_reads_on_after_a_colon():
    for error in ErrorCode:
        assert 5 < len(error.message) < 70, error.name
        assert error.message[0].islower() or error.message.split()[0].isupper(), error.name
        assert not error.message.endswith("."), error.name


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        (0, "NONE", "NONE (0): no error"),
        (
            6,
            "NOT_LEADER_OR_FOLLOWER",
            "NOT_LEADER_OR_FOLLOWER (6): the broker is not the leader, or not a replica",
        ),
        (32000, "UNKNOWN_ERROR_32000", "UNKNOWN_ERROR_32000 (32000): newer than this kipctl"),
        (-2, "UNKNOWN_ERROR_-2", "UNKNOWN_ERROR_-2 (-2): newer than this kipctl"),
    ],
)
def test_names_and_texts(code, name, text):
    assert error_name(code) == name
    assert error_text(code) == text


def test_a_code_that_is_newer_than_kipctl_is_an_error_code_too():
    newer = ErrorCode(32000)
    assert newer == 32000
    assert newer == ErrorCode(32000)
    assert not newer.retriable
    assert newer not in list(ErrorCode)
    assert pickle.loads(pickle.dumps(newer)) == newer
    with pytest.raises(ValueError, match="not a valid ErrorCode"):
        ErrorCode("six")
