"""When the next Metadata request is due, by table and step by step."""

import pytest

from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.metadata_policy import NEVER_US, MetadataPolicy
from kipctl.trace.codes import MetadataCause

KIP951, REFRESH, BASELINE = LeaderDiscovery
CHANGE, RETRY, MAX_AGE = (
    MetadataCause.LEADER_CHANGE,
    MetadataCause.ERROR_RETRY,
    MetadataCause.MAX_AGE,
)


def policy(discovery: LeaderDiscovery = KIP951, news: bool = True) -> MetadataPolicy:
    """Answered at 1000; the backoff is 100, the greatest age 5000."""
    made = MetadataPolicy(discovery, backoff_us=100, max_age_us=5000)
    made.answered(1000, news)
    return made


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_an_answer_is_renewed_at_its_greatest_age(discovery: LeaderDiscovery) -> None:
    metadata = policy(discovery)
    assert metadata.due_us() == 6000
    assert metadata.sent() is MAX_AGE


@pytest.mark.parametrize(
    ("discovery", "news", "due"),
    [
        (KIP951, True, 1100),
        (KIP951, False, 1100),
        (BASELINE, True, 1100),
        (BASELINE, False, 1100),
        (REFRESH, True, 1000),
        # What showed nothing new is not asked for again without pause.
        (REFRESH, False, 1100),
    ],
)
def test_a_refresh_that_is_wanted_waits_for_the_backoff_except_the_first_under_refresh(
    discovery: LeaderDiscovery, news: bool, due: int
) -> None:
    metadata = policy(discovery, news)
    metadata.want(CHANGE)
    assert metadata.due_us() == due


def test_the_first_cause_is_kept_and_used_once() -> None:
    metadata = policy()
    metadata.want(CHANGE)
    metadata.want(RETRY)
    assert metadata.sent() is CHANGE
    metadata.answered(2000, news=False)
    assert metadata.due_us() == 7000
    assert metadata.sent() is MAX_AGE


def test_one_request_at_a_time_and_what_is_wanted_meanwhile_comes_after_it() -> None:
    metadata = policy()
    metadata.want(CHANGE)
    metadata.sent()
    assert metadata.due_us() == NEVER_US
    # This error came after the request went out: its answer may not know of it yet.
    metadata.want(CHANGE)
    assert metadata.due_us() == NEVER_US
    metadata.answered(3000, news=True)
    assert metadata.due_us() == 3100
    assert metadata.sent() is CHANGE


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_a_failed_request_is_repeated_after_the_backoff(discovery: LeaderDiscovery) -> None:
    metadata = policy(discovery)
    metadata.want(CHANGE)
    metadata.sent()
    metadata.failed(4000)
    assert metadata.due_us() == 4100
    assert metadata.sent() is RETRY
