"""A missing right is named, with a command that grants it when it is copied as it stands."""

import shlex

import pytest

from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security
from kipctl.transport.access import Access
from kipctl.transport.acl_errors import refusal


@pytest.mark.parametrize(
    ("topic", "granted"),
    [
        ("orders", "--topic orders"),
        # Each run has another topic of its own: what is granted is for all of them.
        ("kipctl-perf-ops-1-4711-0a1b2c", "--topic kipctl-perf --resource-pattern-type prefixed"),
        (
            "kipctl-metadata-ops-1-4711-0a1b2c-0001",
            "--topic kipctl-metadata --resource-pattern-type prefixed",
        ),
        ("kipctl-perf", "--topic kipctl-perf"),
    ],
)
def test_what_grants_a_right_on_a_topic(topic: str, granted: str) -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    error = refusal("It", denied, ApiKey.CREATE_TOPICS, Access("b:1"), topic)
    assert error.next_step.endswith(f"--operation Create {granted}")


def grant_of(access: Access, topic: str = "orders") -> list[str]:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    error = refusal("Topic", code, ApiKey.METADATA, access, topic)
    assert error.next_step.startswith("Grant it: ")
    return shlex.split(error.next_step.removeprefix("Grant it: "))


def test_the_line_that_grants_a_right_says_at_which_cluster() -> None:
    alice = Security(sasl=Sasl("PLAIN", "alice", "secret"))
    assert grant_of(Access("a:1,b:2", alice)) == [
        *("kafka-acls", "--bootstrap-server", "a:1,b:2", "--command-config", "ADMIN.properties"),
        *("--add", "--allow-principal", "User:alice", "--operation", "Describe"),
        *("--topic", "orders"),
    ]


def test_without_security_the_line_names_no_file() -> None:
    assert "--command-config" not in grant_of(Access("a:1"))


def test_a_principal_with_a_blank_is_one_word_of_the_line() -> None:
    someone = Security(sasl=Sasl("PLAIN", "CN=Team A", "secret"))
    assert "User:CN=Team A" in grant_of(Access("a:1", someone))


def test_what_to_do_otherwise_is_a_line_of_its_own() -> None:
    """So that the command can be copied as a line."""
    error = refusal(
        "No producer id",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        Access("a:1"),
        otherwise="do without",
    )
    grant, otherwise = error.next_step.splitlines()
    assert grant.endswith("--cluster")
    assert otherwise == "Or do without."


def test_who_may_not_be_idempotent_lacks_the_right_to_write() -> None:
    """Since Kafka 2.8 who may write to any topic may be idempotent (KIP-679)."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    access = Access("a:1")
    error = refusal("No producer id", code, ApiKey.INIT_PRODUCER_ID, access, "orders")
    assert "no right to Write on Topic orders (CLUSTER_AUTHORIZATION_FAILED)" in error.what
    assert error.next_step.endswith("--operation Write --topic orders")
