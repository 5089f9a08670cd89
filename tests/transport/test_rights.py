"""A missing right is named with the command that grants it."""

import pytest

from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.transport.access import Access
from kipctl.transport.rights import refusal


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


def test_what_grants_a_right_on_the_cluster() -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    error = refusal("It", denied, ApiKey.ELECT_LEADERS, Access("b:1"), otherwise="wait.")
    assert error.next_step.endswith("--operation Alter --cluster; or wait.")
