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


ALICE, TEAM = (Security(sasl=Sasl("PLAIN", name, "secret")) for name in ("alice", "CN=Team A"))
CONFIG = ("--command-config", "ADMIN.properties")


@pytest.mark.parametrize(
    ("access", "connecting", "principal"),
    [
        (Access("a:1,b:2", ALICE), ("a:1,b:2", *CONFIG), "User:alice"),
        (Access("a:1", TEAM), ("a:1", *CONFIG), "User:CN=Team A"),
        (Access("a:1"), ("a:1",), "User:ANONYMOUS"),
    ],
)
def test_the_line_that_grants_a_right_says_at_which_cluster_and_to_whom(
    access: Access, connecting: tuple[str, ...], principal: str
) -> None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    error = refusal("Topic", code, ApiKey.METADATA, access, "orders")
    assert shlex.split(error.next_step.removeprefix("Grant it: ")) == [
        *("kafka-acls", "--bootstrap-server", *connecting),
        *("--add", "--allow-principal", principal, "--operation", "Describe"),
        *("--topic", "orders"),
    ]


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
