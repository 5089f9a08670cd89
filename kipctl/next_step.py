"""Texts that name commands of kipctl, as objects: who prints one adds what names the cluster."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self, SupportsIndex

Typing = Callable[["Command"], Sequence[str]]
"""The words of a command as they are typed, not quoted."""


@dataclass(frozen=True, slots=True, init=False)
class Command:
    """A command line of kipctl that a user is to type.

    `Command("undo", entry)`, `Command("inspect leaders --all", topic=[name])`: first what is typed
    as it stands, the command's name before its options, then arguments, then options with their
    values: several of a list, no value of True, and no option at all of None, False and an empty
    list. `str` is the line as a shell reads it. With a text before or behind it, it makes a
    NextStep: `"See: " + Command("runs list")`.
    """

    name: str
    """Without `kipctl`: "inspect leaders"."""
    words: tuple[str, ...]
    """What follows the name, not yet quoted."""

    def __init__(self, typed: str, *arguments: object, **options: object) -> None:
        words = shlex.split(typed)
        names = next((at for at, word in enumerate(words) if word[0] == "-"), len(words))
        values = (word for name, value in options.items() for word in _option(name, value))
        object.__setattr__(self, "name", " ".join(words[:names]))
        object.__setattr__(self, "words", (*words[names:], *map(str, arguments), *values))

    def line(self, cluster: Sequence[str] = ()) -> tuple[str, ...]:
        """Its words, not quoted; `cluster` are the options that say where it goes."""
        return ("kipctl", *self.name.split(), *cluster, *self.words)

    def __str__(self) -> str:
        return shlex.join(self.line())

    def __add__(self, text: "str | Command") -> "NextStep":
        return NextStep(self, text)

    def __radd__(self, text: str) -> "NextStep":
        return NextStep(text, self)


def _option(name: str, value: object) -> Iterable[str]:
    option = f"--{name.rstrip('_').replace('_', '-')}"
    match value:
        case None | False:
            return ()
        case True:
            return (option,)
        case str() | int() | float():
            return (option, str(value))
        case Iterable():
            return (word for item in value for word in (option, str(item)))
    return (option, str(value))


class NextStep(str):
    """A text, mostly of what to do next, with the commands in it.

    As a str it is the text with the commands as they are typed where nothing has to name a cluster.
    `+` and `joined` keep the commands; an f-string and str's own methods make plain text of it.
    """

    parts: tuple[str | Command, ...]

    def __new__(cls, *parts: str | Command) -> Self:
        text = super().__new__(cls, "".join(map(str, parts)))
        pieces = (p.parts if isinstance(p, NextStep) else (p,) for p in parts)
        text.parts = tuple(chain.from_iterable(pieces))
        return text

    @property
    def commands(self) -> tuple[Command, ...]:
        """Those that it names."""
        return tuple(part for part in self.parts if isinstance(part, Command))

    def spelled(self, typed: Typing) -> str:
        """The text, with each command as `typed` has it, quoted for a shell."""
        return "".join(shlex.join(typed(p)) if isinstance(p, Command) else p for p in self.parts)

    def __add__(self, text: str | Command) -> "NextStep":
        return NextStep(self, text)

    def __radd__(self, text: str) -> "NextStep":
        return NextStep(text, self)

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> "NextStep":
        """As str's, between the commands."""
        parts = (p.replace(old, new, count) if isinstance(p, str) else p for p in self.parts)
        return NextStep(*parts)

    def __reduce__(self) -> tuple[type["NextStep"], tuple[str | Command, ...]]:
        return NextStep, self.parts


def joined(between: str, texts: Iterable[str | Command]) -> NextStep:
    """As `between.join(texts)`, with their commands."""
    parts = [part for text in texts for part in (between, text)]
    return NextStep(*parts[1:])
