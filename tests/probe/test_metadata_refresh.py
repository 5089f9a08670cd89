"""When the next Metadata request is due and for which topics, by table and step by step."""

import pytest

from kipctl.probe.backoff import Backoff
from kipctl.probe.idle_eviction import TopicPolicy, TopicsInUse
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.metadata_refresh import NEVER_US, MetadataPolicy
from kipctl.trace.codes import MetadataCause

KIP951, REFRESH, BASELINE = LeaderDiscovery
KIP526, LEGACY, PRELOAD = TopicPolicy
CHANGE, RETRY, MAX_AGE = (
    MetadataCause.LEADER_CHANGE,
    MetadataCause.ERROR_RETRY,
    MetadataCause.MAX_AGE,
)
NEW, BACK = MetadataCause.NEW_TOPIC, MetadataCause.IDLE_EVICTION


def policy(discovery: LeaderDiscovery = KIP951, news: bool = True) -> MetadataPolicy:
    """Answered at 1000; the backoff is 100 to 400, the greatest age 5000."""
    made = MetadataPolicy(discovery, Backoff(100, 400, jitter=0), max_age_us=5000)
    made.answered(1000, news)
    return made


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_an_answer_is_renewed_at_its_greatest_age(discovery: LeaderDiscovery) -> None:
    metadata = policy(discovery)
    assert metadata.due_us() == 6000
    assert metadata.sent(1500) is MAX_AGE


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
    metadata.request(CHANGE)
    assert metadata.due_us() == due


def test_the_first_cause_is_kept_and_used_once() -> None:
    metadata = policy()
    metadata.request(CHANGE)
    metadata.request(RETRY)
    assert metadata.sent(1500) is CHANGE
    metadata.answered(2000, news=False)
    assert metadata.due_us() == 7000
    assert metadata.sent(1500) is MAX_AGE


@pytest.mark.parametrize(
    ("of_all", "due"),
    [
        (True, 8000),
        # Of new topics alone it says nothing of the others: these are asked for after it.
        (False, 3100),
    ],
)
def test_one_request_at_a_time_serves_what_is_wanted_until_its_answer_comes(
    of_all: bool, due: int
) -> None:
    metadata = policy()
    metadata.request(CHANGE)
    metadata.sent(1500)
    assert metadata.due_us() == NEVER_US
    metadata.request(RETRY)
    assert metadata.due_us() == NEVER_US
    metadata.answered(3000, news=True, of_all=of_all)
    assert metadata.due_us() == due


@pytest.mark.parametrize(("has_brokers", "since"), [(False, 1500), (True, NEVER_US)])
def test_an_answer_with_brokers_ends_the_wait_for_one_though_it_is_of_no_use(
    has_brokers: bool, since: int
) -> None:
    metadata = policy()
    metadata.sent(1500)
    metadata.failed(1600, has_brokers)
    assert metadata.unanswered_since_us == since


def test_what_is_wanted_while_a_request_fails_is_still_wanted() -> None:
    metadata = policy()
    metadata.sent(1500)
    metadata.request(CHANGE)
    metadata.failed(3000)
    assert metadata.sent(3100) is CHANGE


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_a_failed_request_is_repeated_after_the_backoff(discovery: LeaderDiscovery) -> None:
    metadata = policy(discovery)
    metadata.request(CHANGE)
    metadata.sent(1500)
    metadata.failed(4000)
    assert metadata.due_us() == 4100
    assert metadata.sent(1500) is RETRY


@pytest.mark.parametrize("answer", ["old news", "failed"])
def test_the_backoff_grows_with_answers_in_vain_until_one_shows_something_new(answer: str) -> None:
    metadata = policy()
    waits = []
    for now in (1000, 2000, 3000, 4000, 5000):
        metadata.request(CHANGE)
        waits.append(metadata.due_us() - now)
        metadata.sent(now + 500)
        if answer == "failed":
            metadata.failed(now + 1000)
        else:
            metadata.answered(now + 1000, news=False, of_all=False)
    assert waits == [100, 100, 200, 400, 400]
    metadata.request(CHANGE)
    metadata.sent(6500)
    metadata.answered(7000, news=True)
    metadata.request(CHANGE)
    assert metadata.due_us() == 7100


def test_a_renewal_that_shows_nothing_new_is_not_in_vain() -> None:
    metadata = policy()
    for now in (6000, 11000, 16000):
        assert metadata.sent(now) is MAX_AGE
        metadata.answered(now, news=False)
    metadata.request(CHANGE)
    assert metadata.due_us() == 16100


@pytest.mark.parametrize(
    ("wanted", "new_topics", "due", "cause"),
    [
        (None, NEW, 1000, NEW),
        (None, BACK, 1000, BACK),
        # What is asked for besides does not wait either, and goes first: it is for all topics.
        (CHANGE, NEW, 1000, CHANGE),
        # Who has just failed waits.
        (RETRY, NEW, 1100, RETRY),
        (None, None, 6000, MAX_AGE),
    ],
)
def test_nobody_waits_for_a_new_topic(
    wanted: MetadataCause | None, new_topics: MetadataCause | None, due: int, cause: MetadataCause
) -> None:
    metadata = policy(news=False)
    if wanted is not None:
        metadata.request(wanted)
    assert metadata.due_us(new_topics) == due
    assert metadata.sent(due, new_topics) is cause


def test_a_new_topic_does_not_put_off_the_renewal_of_all() -> None:
    metadata = policy()
    assert metadata.sent(5000, NEW) is NEW
    metadata.answered(5500, news=True, of_all=False)
    assert metadata.due_us() == 6000
    # At that age a new topic makes it a request for all.
    assert metadata.sent(6000, NEW) is MAX_AGE
    metadata.answered(6100, news=True)
    assert metadata.due_us() == 11100


def working_set(policy: TopicPolicy = KIP526, *known: str) -> TopicsInUse:
    """Topics are idle after 100; the known ones were used and answered at 1000."""
    made = TopicsInUse(policy, idle_us=100)
    for topic in known:
        made.use(topic, 1000)
    made.answered(known, (), 1000)
    return made


@pytest.mark.parametrize(
    ("policy", "cause", "asked"),
    [
        (KIP526, NEW, ("c", "d")),
        (KIP526, BACK, ("c", "d")),
        (KIP526, CHANGE, ("a", "b", "c", "d")),
        (KIP526, MAX_AGE, ("a", "b", "c", "d")),
        (KIP526, RETRY, ("a", "b", "c", "d")),
        *((LEGACY, cause, ("a", "b", "c", "d")) for cause in (NEW, BACK, CHANGE, MAX_AGE, RETRY)),
    ],
)
def test_which_topics_a_request_asks_for(
    policy: TopicPolicy, cause: MetadataCause, asked: tuple[str, ...]
) -> None:
    topics = working_set(policy, "a", "b")
    assert not topics.use("c", 1001)
    assert not topics.use("d", 1001)
    assert topics.topics_to_request(cause) == asked
    assert topics.is_for_all(cause) == (len(asked) == 4)


def test_a_topic_is_known_and_no_longer_new_once_an_answer_has_shown_it() -> None:
    topics = working_set()
    assert not topics.use("a", 1000)
    assert topics.new_topics is NEW
    assert topics.answered(["a"], (), 1010) == []
    assert topics.new_topics is None
    assert topics.use("a", 1020)


def test_a_topic_added_while_a_request_is_under_way_stays_new() -> None:
    topics = working_set()
    topics.use("a", 1000)
    asked = topics.topics_to_request(NEW)
    topics.use("b", 1001)
    topics.answered(asked, (), 1002)
    assert (topics.new_topics, topics.topics_to_request(NEW)) == (NEW, ("b",))


def test_a_topic_with_an_error_is_asked_for_again_together_with_all() -> None:
    topics = working_set(KIP526, "a")
    topics.use("b", 1001)
    topics.answered([], ["b"], 1002)
    assert topics.new_topics is None
    assert not topics.use("b", 1003)
    assert topics.topics_to_request(RETRY) == ("a", "b")
    topics.answered(["a", "b"], [], 1004)
    assert topics.use("b", 1005)


@pytest.mark.parametrize(
    ("used", "answered", "dropped"),
    [
        (1000, 1099, []),
        (1000, 1100, ["a"]),
        (1001, 1100, []),
        # It is dropped by an answer, however long it was idle before.
        (1000, 9000, ["a"]),
    ],
)
def test_an_idle_topic_is_dropped_by_the_next_answer(
    used: int, answered: int, dropped: list[str]
) -> None:
    topics = working_set(KIP526, "a", "b")
    topics.use("a", used)
    topics.use("b", answered)
    # An answer for other topics does it as well as one for all.
    assert topics.answered([], (), answered) == dropped
    assert topics.topics == (("b",) if dropped else ("a", "b"))


def test_a_topic_that_is_dropped_is_new_again_when_it_is_used_and_that_is_the_cause() -> None:
    topics = working_set(KIP526, "a")
    topics.answered(["a"], (), 1200)
    assert topics.topics == ()
    assert not topics.use("a", 1300)
    assert topics.new_topics is BACK
    topics.use("b", 1300)
    assert topics.new_topics is NEW
    assert topics.topics_to_request(NEW) == ("a", "b")
    topics.answered(["a", "b"], (), 1301)
    assert topics.use("a", 1302)


def test_a_new_topic_is_kept_until_it_was_in_an_answer_and_through_it() -> None:
    topics = working_set()
    topics.use("a", 1000)
    assert topics.answered([], (), 5000) == []
    assert topics.answered(["a"], (), 6000) == []
    assert topics.use("a", 6000)
