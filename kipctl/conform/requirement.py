"""What all that is asked of software has: an id, what it asks, and why. Some of it is chosen."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeVar

from kipctl.errors import UsageError, did_you_mean
from kipctl.next_step import Command


class Requirement:
    """Something that is asked. `says` is the sentence of a KIP or of the protocol, `why` what it
    costs not to do it; the docstring is what is done to see it.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    says: ClassVar[str]
    why: ClassVar[str]


R = TypeVar("R", bound=type[Requirement])


def of_id(id: str, among: Sequence[R]) -> R:
    """By its id. Raises UsageError."""
    by_id = {required.id: required for required in among}
    if id not in by_id:
        raise _none(f"rule {id!r}", id, by_id)
    return by_id[id]


def picked(wanted: str | None, among: Sequence[R]) -> tuple[R, ...]:
    """Those with these ids, or whose ids begin so ("951" of 951-1); all of them for None.

    Raises UsageError for a name of none.
    """
    if wanted is None:
        return tuple(among)
    names = [name.strip() for name in wanted.split(",")]
    known = {name for required in among for name in _names(required)}
    for name in names:
        if name not in known:
            raise _none(f"rule or KIP {name!r}", name, known)
    return tuple(required for required in among if not _names(required).isdisjoint(names))


def _names(required: type[Requirement]) -> set[str]:
    return {required.id, required.id.partition("-")[0]}


def _none(what: str, name: str, known: Iterable[str]) -> UsageError:
    return UsageError(
        f"There is no {what}.{did_you_mean(name, known)}", "List them: " + Command("conform list")
    )
