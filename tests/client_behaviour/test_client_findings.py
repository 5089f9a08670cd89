"""Findings by table: facts that are one, what only looks like it, and what is just too little."""

from collections import Counter
from collections.abc import Mapping
from functools import partial

import pytest

from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import HintFault, Outcome
from kipctl.client_behaviour.facts import End, EpisodeFact, Event, Fact, Pace
from kipctl.client_behaviour.findings.catalogue import (
    FINDINGS,
    known_bug,
    matching,
    seen,
)
from kipctl.client_behaviour.software import Software
from kipctl.severity import Severity

PRODUCE, FETCH = 0, 1
NOBODY = Software("somebodys-own", "1.0")
F, M, B, E = Outcome.FOLLOWED, Outcome.BY_METADATA, Outcome.SENT_BACK, Outcome.ELSEWHERE


refused = partial(EpisodeFact, PRODUCE)
GOOD = refused(F, pace=Pace.AT_ONCE, is_refreshed=True)
LOOP = refused(faults=(HintFault.REFUSER,), is_loop=True)
WAITED = refused(F, pace=Pace.AFTER_BACKOFF, is_refreshed=True)
UNREFRESHED = GOOD._replace(is_refreshed=False)
FENCED_LATE = refused(M, pace=Pace.AFTER_BACKOFF, is_fenced=True)
ELSEWHERE = refused(faults=(HintFault.OTHER_ENDPOINT,))
NOT_READY = refused(F, is_not_ready=True, is_refreshed=True)
NO_METADATA = refused(is_long=True, is_refreshed=False)
GIVEN_UP = refused(M, end=End.GIVEN_UP, few_refusals=True)


CASES: list[tuple[Mapping[Fact, int], str | None]] = [
    ({}, None),
    ({GOOD: 100}, None),
    ({LOOP: 1}, "hint-hot-loop"),
    ({LOOP: 2, GOOD: 10}, "hint-hot-loop"),
    ({LOOP: 1, GOOD: 10}, None),
    # Told nothing, it may not know better; the verdict says that it loops.
    ({refused(is_loop=True): 1}, None),
    ({refused(B): 3}, "hint-ignored"),
    ({refused(B): 2, refused(E): 1, GOOD: 2}, "hint-ignored"),
    ({refused(B): 2}, None),
    ({refused(B): 3, GOOD: 3}, None),
    # Several processes of that name, or a log that is missing: it may have gone by the hint.
    ({refused(B, doubt=Doubt.NAMESAKES): 9}, None),
    ({refused(B, doubt=Doubt.NO_LOG): 9}, None),
    # Where it went is no question of time.
    ({refused(B, doubt=Doubt.BUSY): 3}, "hint-ignored"),
    ({WAITED: 20}, "hint-waited"),
    ({WAITED: 19}, None),
    ({WAITED: 20, GOOD: 20}, None),
    ({WAITED._replace(doubt=Doubt.BUSY): 20}, None),
    ({WAITED._replace(doubt=Doubt.TAP): 20}, None),
    ({UNREFRESHED: 3}, "hint-no-refresh"),
    ({UNREFRESHED: 3, GOOD: 3}, None),
    ({UNREFRESHED._replace(is_refreshed=None): 9}, None),
    ({refused(strayed=HintFault.SAME_EPOCH): 1}, "hint-same-epoch-followed"),
    ({refused(strayed=HintFault.OLDER): 1}, "hint-same-epoch-followed"),
    ({refused(faults=(HintFault.SAME_EPOCH,)): 9}, None),
    ({refused(M, is_undone=True): 2}, "hint-undone"),
    ({refused(M, is_undone=True): 1}, None),
    ({FENCED_LATE: 3}, "fenced-ignored"),
    ({FENCED_LATE._replace(pace=Pace.QUICK): 3}, None),
    ({FENCED_LATE._replace(doubt=Doubt.BUSY): 3}, None),
    ({Event.OTHERS_CUT: 2}, "other-connections-cut"),
    ({Event.OTHERS_CUT: 1}, None),
    ({ELSEWHERE: 3}, "endpoint-differs"),
    # A broker that has just moved: Metadata says so soon.
    ({ELSEWHERE: 2, GOOD: 50}, None),
    # Nobody's client does that: who they are makes no difference.
    ({ELSEWHERE._replace(doubt=Doubt.NAMESAKES): 3}, "endpoint-differs"),
    ({NOT_READY: 3}, "hint-to-refuser"),
    ({NOT_READY: 3, GOOD: 30}, None),
    ({NO_METADATA: 1}, "no-metadata-after-6"),
    ({NO_METADATA._replace(is_refreshed=None): 1}, None),
    ({NO_METADATA._replace(is_long=False): 1}, None),
    ({NO_METADATA._replace(faults=(HintFault.OLDER,)): 1}, None),
    ({GIVEN_UP: 1}, "retries-exhausted"),
    # The process has ended: that is seen as the end of its connections, and is open.
    ({GIVEN_UP._replace(end=End.OPEN): 9}, None),
    ({GIVEN_UP._replace(few_refusals=False): 1}, None),
    ({GIVEN_UP._replace(api=FETCH): 1}, None),
    ({Event.ALIKE_METADATA: 2}, "metadata-storm"),
    ({Event.ALIKE_METADATA: 1}, None),
    ({Event.ALL_TOPICS: 5}, "metadata-everything"),
    ({Event.ALL_TOPICS: 4}, None),
    ({Event.KNOWN_WITH_NEW: 5}, "metadata-all-for-one"),
    ({Event.KNOWN_WITH_NEW: 4}, None),
    ({Event.REPLICA_FLIP: 1}, "replica-flip-flop"),
    ({Event.REPLICA_KEPT: 1}, "replica-kept"),
    ({Event.REPLICA_IGNORED: 1}, "replica-ignored"),
    ({Event.READ_TWICE: 3}, "refetch-after-recheck"),
    ({Event.READ_TWICE: 2}, None),
    ({Event.EPOCH_REFUSED: 1}, "epoch-loop"),
    ({Event.SESSION_LOST: 2}, "session-churn"),
    ({Event.SESSION_LOST: 1}, None),
    ({Event.SEQUENCE_REFUSED: 1}, "sequence-trouble"),
    ({Event.DEAD_LEADER_RETRIED: 1}, "dead-leader-retried"),
    ({Event.RECREATED_IGNORED: 1}, "recreated-ignored"),
    ({Event.POSITION_REFUSED: 1}, "position-loop"),
    ({Event.REBOOTSTRAP_IGNORED: 1}, "rebootstrap-ignored"),
]


@pytest.mark.parametrize(("facts", "finding_id"), CASES)
def test_what_facts_come_to(facts: Mapping[Fact, int], finding_id: str | None) -> None:
    ids = [entry.finding.id for entry in seen(facts, NOBODY)]
    assert ids == ([finding_id] if finding_id else [])


def test_every_finding_is_in_the_table_above() -> None:
    assert {finding_id for _, finding_id in CASES} == {*FINDINGS, None}


def test_the_worst_comes_first_and_then_the_most_frequent() -> None:
    facts = Counter({LOOP: 2, UNREFRESHED: 3, Event.ALIKE_METADATA: 9, refused(B): 5})
    findings = seen(facts, NOBODY)
    assert [(entry.finding.id, entry.times.seen) for entry in findings] == [
        ("hint-hot-loop", 2),
        ("metadata-storm", 9),
        ("hint-ignored", 5),
        ("hint-no-refresh", 3),
    ]
    assert findings[0].times == (2, 10)


def test_of_namesakes_only_what_brokers_do_is_said() -> None:
    facts = Counter({LOOP: 2, ELSEWHERE: 3, Event.ALIKE_METADATA: 9})
    findings = seen(facts, NOBODY, [Doubt.NAMESAKES])
    assert [entry.finding.id for entry in findings] == ["endpoint-differs"]


@pytest.mark.parametrize(
    ("name", "version", "finding", "mended_in"),
    [
        ("kgo", "v1.21.6", "hint-hot-loop", "1.21.7"),
        ("kgo", "v1.21.7", "hint-hot-loop", None),
        ("kgo", "v1.16.1", "hint-hot-loop", None),
        ("kgo", "v1.20.7", "other-connections-cut", "1.21"),
        ("kgo", "v1.21.6", "other-connections-cut", None),
        ("librdkafka", "2.3.0", "metadata-storm", "2.4"),
        ("platformatic-kafka", "2.12.1", "metadata-storm", ""),
        ("platformatic-kafka", "1.35.0", "session-churn", "2.3"),
        ("platformatic-kafka", "2.7.0", "session-churn", None),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", "hint-waited", ""),
        # Seen on a scripted cluster: nobody has written of it elsewhere.
        ("kgo", "v1.22.3", "hint-no-refresh", None),
        ("kgo", "v1.22.3", "fenced-ignored", None),
        ("sarama", "1.61.1", "hint-ignored", ""),
        ("sarama", "dev", "hint-ignored", ""),
        ("kgo", "dev", "hint-hot-loop", None),
        ("apache-kafka-java", "4.3.1", "hint-ignored", None),
    ],
)
def test_what_is_known_of_a_version(
    name: str, version: str, finding: str, mended_in: str | None
) -> None:
    known = FINDINGS[finding].affected(Software(name, version))
    assert (known and known.mended_in) == mended_in


def test_what_is_known_is_said_with_where_it_is_public() -> None:
    told = known_bug(Software("kgo", "v1.21.6"))
    assert told.startswith("Known of kgo v1.21.6: it asks the same broker again and again")
    assert "twmb/franz-go#1412, mended in 1.21.7" in told
    assert "not mended in any version yet" in known_bug(Software("sarama", "1.61.1"))
    assert known_bug(NOBODY) == known_bug(Software("apache-kafka-java", "4.3.1")) == ""
    # Notes are no bugs that anybody has to be warned of.
    assert known_bug(Software("librdkafka", "2.16.0")) == ""


@pytest.mark.parametrize("finding", FINDINGS.values(), ids=list(FINDINGS))
def test_each_is_said_in_plain_sentences(finding) -> None:
    assert finding.does[0].islower()
    assert not finding.does.endswith(".")
    assert finding.costs[0].isupper()
    assert finding.costs.endswith(".")
    assert finding.change.endswith(".")
    assert isinstance(finding.severity, Severity)
    for known in finding.known:
        assert known.address.startswith(
            ("https://github.com/", "https://issues.apache.org/jira/browse/KAFKA-")
        )


def test_a_fact_says_at_once_of_what_it_is_a_sign() -> None:
    assert [finding.id for finding in matching(LOOP)] == ["hint-hot-loop"]
    assert matching(GOOD) == ()
    assert [finding.id for finding in matching(Event.OTHERS_CUT)] == ["other-connections-cut"]
