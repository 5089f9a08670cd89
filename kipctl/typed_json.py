"""What goes to another process, or stays for one, as JSON that is read into declared types alone.

Whoever can write to a shared folder must not thereby run code as its reader, nor change what that
has in memory: what was read is new values of the dataclass that was asked for, or an error.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import GenericAlias
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from kipctl.errors import UsageError
from kipctl.next_step import NextStep

T = TypeVar("T")
_MOST = 1 << 62
"""Of a number: so the difference of two fits into a row."""
_DEEPEST = 100
"""Levels of a document: what goes through it level by level has a stack for that."""


class DamagedError(UsageError):
    """What was left is none of its kind: it is damaged, or was not written by kipctl."""

    @classmethod
    def of(cls, name: object, why: Exception) -> "DamagedError":
        return cls(f"{name} is damaged, or is not kipctl's: {why}")


@contextmanager
def damaged_if_unfit(name: object) -> Iterator[None]:
    """In the block a document is gone through that other hands may have written: DamagedError where
    it lacks something, or has something else there."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as unfit:
        raise DamagedError.of(name, unfit) from unfit


def encoded(value: object) -> bytes:
    """A value of dataclasses, named tuples, enums, collections and paths, as JSON.

    Keys of mappings are texts or numbers. Raises TypeError for what is nothing of all that.
    """
    return msgspec.json.encode(value, enc_hook=_text)


def decoded(
    content: bytes | str,
    kind: type[T],
    name: str,
    kinds_of: Mapping[object, Collection[type]] | None = None,
) -> T:
    """A value of that kind, from what `encoded` has made of one; `name` is for the message.

    `kinds_of` has the dataclasses that may stand where a protocol is declared: which of them it is
    the names of the fields tell. Raises DamagedError, and what the dataclasses themselves refuse
    becomes one.
    """

    def other(declared: Any, plain: Any) -> Any:
        """A value of a type that msgspec does not know."""
        if declared is Path and isinstance(plain, str):
            return Path(plain)
        if get_origin(declared) is Counter:
            return Counter(converted(plain, GenericAlias(dict, (*get_args(declared), int))))
        if isinstance(plain, dict):
            for candidate in (kinds_of or {}).get(declared, ()):
                if plain.keys() == {field.name for field in fields(candidate)}:
                    return converted(plain, candidate)
        raise ValueError(f"this is no {getattr(declared, '__name__', declared)}")

    def converted(plain: Any, kind: Any) -> Any:
        return msgspec.convert(plain, kind, str_keys=True, dec_hook=other)

    try:
        plain_json(content)
        return msgspec.json.decode(content, type=kind, dec_hook=other)
    except (ValueError, UsageError) as wrong:
        raise DamagedError.of(name, wrong) from None


def plain_json(content: bytes | str) -> Any:
    """What a JSON text holds that anybody may have written.

    Its numbers are finite, and may be taken for whole ones or for floats. Raises ValueError: a
    JSONDecodeError for what is no JSON; also for larger numbers, and for more than 100 levels.
    """
    try:
        document = json.loads(
            content, parse_int=_whole, parse_float=_finite, parse_constant=_finite
        )
        level = [document]
        for _ in range(_DEEPEST):
            level = [inner for value in level for inner in _inner(value)]
            if not level:
                return document
    except RecursionError:
        pass
    raise ValueError("it is nested too deeply")


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _text(value: object) -> str:
    if isinstance(value, Path | NextStep):
        return str(value)
    raise TypeError(f"{value!r} is nothing for a document.")


def _whole(digits: str) -> int:
    if len(digits) > len(str(-_MOST)) or not -_MOST < (number := int(digits)) <= _MOST:
        raise ValueError("a number is too large")
    return number


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError("a number is out of range")
    return number
