"""What goes to another process is read as it was, or refused; nothing else happens."""

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipctl.errors import UsageError
from kipctl.typed_json import DamagedError, decoded, encoded


class Colour(StrEnum):
    RED = "red"


class Code(IntEnum):
    ONE = 1


class Place(NamedTuple):
    host: str
    port: int


class Source:
    """Of one kind or another."""


@dataclass(frozen=True, slots=True)
class FromFile(Source):
    path: Path


@dataclass(frozen=True, slots=True)
class FromText(Source):
    text: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    number: int
    share: float | None = None
    place: Place | None = None
    colours: tuple[Colour, ...] = ()
    counts: Counter[Code] = field(default_factory=Counter)
    ids: frozenset[str] = frozenset()
    folder: Path | None = None
    by_number: dict[int, Place] = field(default_factory=dict)
    source: Source | None = None

    def __post_init__(self) -> None:
        if self.number < 0:
            raise UsageError("It is negative.")


KINDS = {Source: (FromFile, FromText)}


@pytest.mark.parametrize(
    "value",
    [
        Whole(1),
        Whole(1 << 62, 0.5, Place("é", 2), (Colour.RED,), Counter({Code.ONE: 3})),
        Whole(0, ids=frozenset({"a", "b"}), folder=Path("/a b"), by_number={-1: Place("x", 0)}),
        Whole(0, source=FromFile(Path("t"))),
        Whole(0, source=FromText("t", 2)),
    ],
)
def test_a_value_is_read_as_it_was(value: Whole) -> None:
    again = decoded(encoded(value), Whole, "It", KINDS)
    assert again == value
    assert type(again.counts) is Counter
    assert type(again.folder) is type(value.folder)


def test_what_is_no_document_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="nothing for a document"):
        encoded(Whole(0, source=object()))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"number": "1"}', r"Expected `int`, got `str` - at `\$.number`"),
        ('{"number": true}', "got `bool`"),
        ('{"number": 1.0}', "got `float`"),
        ("{}", "missing required field `number`"),
        ("[1]", "Expected `object`"),
        ('{"number": -1}', "It is negative"),
        ('{"number": 4611686018427387905}', "too large"),
        (f'{{"number": {"9" * 5000}}}', "too large"),
        ('{"number": NaN}', "out of range"),
        ('{"number": 0, "more": -1e999}', "out of range"),
        ('{"number": 0, "share": 1e999}', "out of range"),
        ('{"number": 0, "place": ["h"]}', "at least length 2|of at least|length"),
        ('{"number": 0, "place": ["\\ud800", 1]}', "malformed|surrogate"),
        ('{"number": 0, "colours": ["blue"]}', "Invalid enum value"),
        ('{"number": 0, "counts": {"2": 1}}', "Invalid enum value"),
        ('{"number": 0, "counts": {"1": "1"}}', "got `str`"),
        ('{"number": 0, "counts": 7}', "Expected `object`, got `int`"),
        ('{"number": 0, "folder": 7}', "no Path"),
        ('{"number": 0, "source": {"path": 1}}', "no Path"),
        ('{"number": 0, "source": {"path": "a", "text": "b"}}', "no Source"),
        ('{"number": 0, "source": "a"}', "no Source"),
        ('{"number": 0, "source": {}}', "no Source"),
        ('{"number": 0', "Expecting"),
        ('{"number": 0, "more": ' + "[" * 100_000 + "}", "too deeply"),
        ('{"number": 0, "more": ' + "[" * 150 + "]" * 150 + "}", "too deeply"),
        ("", "Expecting"),
        (b"\xff", "codec"),
        (b"\x80\x04\x8e\x00\x00\x00\x80\x00\x00\x00\x00", "codec"),
    ],
)
def test_what_is_none_of_its_kind_is_one_declared_error(content: Any, why: str) -> None:
    with pytest.raises(DamagedError, match=why) as refused:
        decoded(content, Whole, "The file x", KINDS)
    assert refused.value.what.startswith("The file x is damaged, or is not kipctl's: ")


WHOLE = json.loads(encoded(Whole(5, 0.5, folder=Path("/a"), source=FromText("t"))))
NOTHING_OF_THE_KIND = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(WHOLE)), NOTHING_OF_THE_KIND)
def test_whatever_stands_in_a_field_there_is_a_value_or_the_error(name: str, other: Any) -> None:
    content = json.dumps(WHOLE | {name: other})
    with suppress(DamagedError):
        assert isinstance(decoded(content, Whole, "It", KINDS), Whole)
