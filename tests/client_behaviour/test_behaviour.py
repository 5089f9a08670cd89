"""Verdicts by table: what was seen, and what a client does by that."""

import pytest

from kipctl.client_behaviour.behaviour import (
    Behaviour,
    Seen,
    Verdict,
    Waits,
    advice,
    expected,
    judge,
    sentence,
)
from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import HintFault, Outcome
from kipctl.client_behaviour.software import HintUse, Software, known_of

F, M, B, E = Outcome.FOLLOWED, Outcome.BY_METADATA, Outcome.SENT_BACK, Outcome.ELSEWHERE
NOBODY = Software("somebodys-own", "1.0")
RDKAFKA = Software("confluent-kafka-python", "2.16.0-rdkafka-2.16.0")
JAVA = Software("apache-kafka-java", "3.9.1")
LOOPING = Software("kgo", "v1.21.6")


def seen(reaction_ms: float | None = None, **more: object) -> Seen:
    reaction_us = None if reaction_ms is None else round(1000 * reaction_ms)
    given = {"leader_errors": 12, "hints": 12, "reaction_p50_us": reaction_us} | more
    return Seen(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "software", "behaviour"),
    [
        (Seen(), NOBODY, Behaviour.NOT_MET),
        (seen(2, outcomes={F: 10, M: 2}), NOBODY, Behaviour.FOLLOWS),
        (seen(102, outcomes={F: 12}), NOBODY, Behaviour.WAITS),
        (seen(102, outcomes={M: 12}), RDKAFKA, Behaviour.WAITS),
        # It goes when Metadata says so: with hints or without makes no difference.
        (seen(102, outcomes={M: 12}), NOBODY, Behaviour.IGNORES),
        # It asks for Metadata at once: whether it goes by that or by hints is not seen.
        (seen(30, outcomes={M: 12}), NOBODY, Behaviour.UNKNOWN),
        (seen(30, outcomes={M: 12}), Software("kgo", "v1.22.3"), Behaviour.FOLLOWS),
        (seen(30, outcomes={M: 12}), Software("sarama", "1.61.1"), Behaviour.IGNORES),
        (seen(102, outcomes={M: 12}), Software("sarama", "1.61.1"), Behaviour.IGNORES),
        # Brokers' logs do not tell that a machine was busy: Java 3.9.1 on one.
        (seen(205, outcomes={F: 16, M: 28, B: 8}), JAVA, Behaviour.UNKNOWN),
        (seen(297, outcomes={F: 40, M: 8}), JAVA, Behaviour.WAITS),
        (seen(1500, outcomes={B: 7, M: 5}), NOBODY, Behaviour.IGNORES),
        (seen(3, outcomes={E: 12}), NOBODY, Behaviour.IGNORES),
        # What is known of a software does not overrule what was seen.
        (seen(1, outcomes={F: 12}), Software("sarama", "1.61.1"), Behaviour.FOLLOWS),
        (seen(1, outcomes={F: 12}), LOOPING, Behaviour.FOLLOWS),
        (seen(1, outcomes={F: 10}, loops=1), LOOPING, Behaviour.LOOPS),
        (seen(1, outcomes={F: 99}, loops=1), LOOPING, Behaviour.FOLLOWS),
        (
            seen(outcomes={Outcome.NOT_HINTED: 1}, loops=1, faults={HintFault.REFUSER: 1}),
            LOOPING,
            Behaviour.LOOPS,
        ),
        (
            seen(outcomes={Outcome.NOT_HINTED: 3}, faults={HintFault.OTHER_ENDPOINT: 3}),
            NOBODY,
            Behaviour.UNUSABLE,
        ),
        (seen(outcomes={Outcome.NOT_HINTED: 3}, hints=0), NOBODY, Behaviour.NO_HINTS),
        (
            seen(outcomes={Outcome.NOT_HINTED: 3}, hints=0, dropped_hints=3),
            NOBODY,
            Behaviour.NO_HINTS,
        ),
        (seen(outcomes={Outcome.UNSEEN: 3}), NOBODY, Behaviour.UNKNOWN),
        # A busy machine makes waits, and takes none away; it does not send clients elsewhere.
        (seen(132.9, outcomes={F: 12}, doubts=(Doubt.BUSY,)), LOOPING, Behaviour.UNKNOWN),
        (seen(2, outcomes={F: 12}, doubts=(Doubt.BUSY,)), LOOPING, Behaviour.FOLLOWS),
        (seen(1500, outcomes={B: 12}, doubts=(Doubt.BUSY,)), NOBODY, Behaviour.IGNORES),
        (seen(5, outcomes={F: 12}, doubts=(Doubt.NAMESAKES,)), RDKAFKA, Behaviour.UNKNOWN),
    ],
)
def test_what_a_client_does(what: Seen, software: Software, behaviour: Behaviour) -> None:
    verdict = judge(what, software)
    assert verdict.behaviour is behaviour
    assert sentence(verdict, what).endswith(".")


def test_that_there_may_be_several_processes_hides_no_busy_machine() -> None:
    why = judge(seen(5, outcomes={F: 12}, doubts=(Doubt.NAMESAKES, Doubt.BUSY))).why
    assert why == f"{Doubt.BUSY}, or {Doubt.NAMESAKES}"
    assert "may share" in Doubt.NAMESAKES
    assert judge(seen(5, outcomes={F: 12}, doubts=(Doubt.NAMESAKES,))).why == Doubt.NAMESAKES


def test_unusable_hints_are_told_with_whose_fault_it_is() -> None:
    what = seen(
        outcomes={Outcome.NOT_HINTED: 3}, faults={HintFault.OLDER: 1, HintFault.NO_ENDPOINT: 2}
    )
    verdict = judge(what)
    assert verdict == Verdict(Behaviour.UNUSABLE, HintFault.NO_ENDPOINT)
    assert "without its endpoint" in sentence(verdict, what)


def test_a_sentence_has_the_waits_where_there_are_any() -> None:
    waits = Waits(12, 1_000, 2_000, 3_000)
    what = seen(1, outcomes={F: 12}, waits=waits)
    told = "follows hints: waits p50 1.0 ms, at most 3.0 ms, for 12 moved leaders."
    assert sentence(judge(what), what) == told


def test_what_is_no_backoff_of_the_client_is_told_as_time_without_success() -> None:
    faults = {HintFault.REFUSER: 1}
    for outcomes, loops in (({Outcome.NOT_HINTED: 1}, 0), ({Outcome.NOT_HINTED: 1}, 1)):
        what = seen(outcomes=outcomes, loops=loops, faults=faults, longest_us=14_750_000)
        assert "15 s without success." in sentence(judge(what), what)


def test_a_single_loop_of_many_episodes_is_told_besides() -> None:
    what = seen(1, outcomes={F: 99}, loops=1)
    assert "1 time it asked again and again without a backoff" in sentence(judge(what), what)


def test_advice_names_the_known_bug_and_the_version_that_mends_it() -> None:
    told = advice(Verdict(Behaviour.LOOPS, HintFault.REFUSER), LOOPING)
    assert "kgo v1.21.6" in told
    assert "twmb/franz-go#1412, mended in 1.21.7" in told
    assert "1.21.7" not in advice(Verdict(Behaviour.LOOPS), NOBODY)
    assert "retry.backoff" not in told
    assert "mended in any version yet" in advice(
        Verdict(Behaviour.IGNORES), Software("sarama", "1.61.1")
    )


@pytest.mark.parametrize(
    ("name", "version", "hints"),
    [
        ("apache-kafka-java", "3.6.2", HintUse.NONE),
        ("apache-kafka-java", "4.3.1", HintUse.FOLLOWS),
        ("kgo", "v1.16.1", HintUse.NONE),
        ("kgo", "v1.20.7", HintUse.FOLLOWS),
        ("kgo", "v1.21.6", HintUse.FOLLOWS),
        ("kgo", "v1.22.3", HintUse.FOLLOWS),
        ("librdkafka", "2.3.0", HintUse.NONE),
        ("confluent-kafka-javascript", "v1.9.0-librdkafka-2.13.2", HintUse.WAITS),
        ("sarama", "1.61.1", HintUse.IGNORES),
    ],
)
def test_what_is_known_of_a_software(name: str, version: str, hints: HintUse) -> None:
    known = known_of(Software(name, version))
    assert known is not None
    assert known.hints is hints


@pytest.mark.parametrize(
    ("name", "version", "produce", "fetch", "words"),
    [
        ("apache-kafka-java", "4.3.1", [13], [], "known to follow"),
        ("apache-kafka-java", "4.3.1", [], [16], "known to follow"),
        # A new client of old brokers is sent no hints; while brokers are upgraded it meets both.
        ("apache-kafka-java", "4.3.1", [9], [15], "too old for them"),
        ("apache-kafka-java", "4.3.1", [9, 10], [], "known to follow"),
        ("apache-kafka-java", "3.6.0", [10], [], "too old for them"),
        ("apache-kafka-java", "unknown", [13], [], "not known"),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", [10], [], "known to wait"),
        ("kgo", "v1.20.7", [10], [], "known to loop: update to 1.21.7"),
        ("kgo", "v1.22.3", [10], [], "known to follow"),
        ("sarama", "1.61.1", [11], [], "known to ignore"),
        ("unknown", "unknown", [13], [], "not known"),
        ("kipctl", "0.1.0", [], [], "-"),
    ],
)
def test_what_a_client_that_met_no_moved_leader_is_expected_to_do(
    name: str, version: str, produce: list[int], fetch: list[int], words: str
) -> None:
    assert expected(Software(name, version), produce, fetch) == words


def test_nothing_is_known_of_others() -> None:
    assert known_of(NOBODY) is None
