"""Counts with their nouns and verbs."""

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_source import FILES, parsed

from kipctl.counts import broker_list, counted, first_few, format_bytes, plural
from kipctl.report.overview import Health, Overview, sentences
from kipctl.report.run_tables import list_answer

NOUNS = ("batch", "broker", "entry", "leader", "other partition", "partition", "replica", "topic")
VERBS = {"are": "is", "have": "has", "were": "was", "do": "does", "get": "gets", "hold": "holds"}


@pytest.mark.parametrize(
    ("count", "total", "words", "said"),
    [
        (0, None, ("topic",), "0 topics"),
        (1, None, ("topic",), "1 topic"),
        (1200, None, ("topic",), "1,200 topics"),
        (1, None, ("run", "are"), "1 run is"),
        (2, None, ("run", "are"), "2 runs are"),
        (1, None, ("", "have"), "1 has"),
        (0, 1, ("partition", "have"), "0 of 1 partitions have"),
        (1, 1, ("partition", "have"), "1 of 1 partition has"),
        (1, 1200, ("entry", "hold"), "1 of 1,200 entries holds"),
        (2, 3, ("batch",), "2 of 3 batches"),
    ],
)
def test_one_and_several(count: int, total: int | None, words: tuple[str, ...], said: str) -> None:
    assert counted(count, *words, total=total) == said


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_250_000, "1.2 MB"),
        (3 * 10**15, "3000.0 TB"),
    ],
)
def test_bytes_are_told_in_the_largest_unit_of_which_there_is_one(size: int, told: str) -> None:
    assert format_bytes(size) == told


@given(
    st.integers(0, 10**6),
    st.none() | st.integers(0, 10**6),
    st.sampled_from(NOUNS),
    st.sampled_from([*VERBS]),
)
def test_noun_and_verb_agree_with_the_count(
    count: int, total: int | None, noun: str, verb: str
) -> None:
    said = counted(count, noun, verb, total=total)
    assert said.endswith(f" {VERBS[verb] if count == 1 else verb}")
    is_one = count == 1 and total in (None, 1)
    assert f" {noun if is_one else plural(noun)} " in said
    numbers = [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", said)]
    assert numbers == [count] + ([] if total is None else [total])


@given(st.sets(st.integers(0, 10**4), min_size=1), st.sampled_from([*VERBS]))
def test_brokers_agree_with_how_many_they_are(ids: set[int], verb: str) -> None:
    noun, *listed, said = broker_list(ids, verb).split()
    assert [int(number.rstrip(",")) for number in listed] == sorted(ids)
    assert (noun, said) == (("broker", VERBS[verb]) if len(ids) == 1 else ("brokers", verb))


def is_agreeing_or_constant(count: ast.expr) -> bool:
    match count:
        case ast.Call(ast.Name("counted")):
            return True
        case ast.Name(name):
            return name.isupper()
    return False


def agreeing_by_hand() -> list[str]:
    """Texts in which a number that is not written out stands before a plural of NOUNS."""
    plurals = "|".join(map(plural, NOUNS))
    places = []
    for file in FILES:
        for text in ast.walk(parsed(file)):
            if not isinstance(text, ast.JoinedStr):
                continue
            for count, after in zip(text.values, text.values[1:], strict=False):
                if (
                    isinstance(count, ast.FormattedValue)
                    and not is_agreeing_or_constant(count.value)
                    and isinstance(after, ast.Constant)
                    and isinstance(after.value, str)
                    and re.match(rf" ({plurals})\b", after.value)
                ):
                    places.append(f"{file}: {ast.unparse(text)}")
    return places


def test_answers_of_one() -> None:
    health = Health(1, 1, 1, 0, 0, 0, 0)
    assert next(sentences(Overview("a:1", "", health, ""))) == (
        "Cluster a:1: 1 broker, 1 topic, 1 partition."
    )
    run = {"name": "before", "state": "whole", "started": "2026-01-01"}
    answer = list_answer({"store": "here", "runs": [run]})
    assert answer == "1 run is recorded; the newest is before."


def test_no_text_lets_a_noun_agree_by_itself() -> None:
    assert agreeing_by_hand() == []


def test_a_verb_is_given_by_itself() -> None:
    """Not with its noun, as the plural of both."""
    verbs = {
        verb.value
        for file in FILES
        for call in ast.walk(parsed(file))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id == "counted"
        for verb in call.args[2:]
        if isinstance(verb, ast.Constant) and isinstance(verb.value, str)
    }
    assert verbs >= {"are", "have"}
    assert [verb for verb in verbs if not verb.isalpha()] == []


@pytest.mark.parametrize(
    ("things", "said"),
    [([], ""), ([1, 2, 3], "1, 2, 3"), ([1, 2, 3, 4], "1, 2, 3 and 1 more")],
)
def test_the_first_few_are_named_and_the_others_counted(things: list[int], said: str) -> None:
    assert first_few(things) == said
