"""What is hidden of secrets in what is shown, or written down, of commands and properties."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kipctl.urls import without_logins

HIDDEN = "[hidden]"
_NAMES = r"passw|secret|sasl\.jaas\.config|token|ssl\.key|credential|api-?key|authorization|cookie"
_SECRET = re.compile(_NAMES, re.IGNORECASE)
_GIVEN = r"""(?:\s{0,8}=\s{0,8}|\s{0,8}:\s{1,8}|\\{0,4}["']\s{0,8}[:=]\s{0,8})"""
"""Between a name, in quotes or not, and what it has; bounded, so that a long text is gone through
once."""
_NAMED = re.compile(rf"((?:{_NAMES})[\w.-]{{0,64}}{_GIVEN}).+", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether what has this name, a property, an option or a header, is a secret."""
    return bool(_SECRET.search(name))


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, with the values of those that hold a secret replaced."""
    return {name: HIDDEN if is_secret(name) else value for name, value in properties.items()}


def redacted(value: Any) -> Any:
    """A JSON value without logins in URLs, and all texts in it hidden that are named like a secret.

    What kipctl records has none; this is for what other hands wrote.
    """
    match value:
        case dict():
            return {
                name: HIDDEN if isinstance(inner, str) and is_secret(name) else redacted(inner)
                for name, inner in value.items()
            }
        case list():
            return [*map(redacted, value)]
        case str():
            return without_logins(value)
    return value


def text_without_secrets(text: str) -> str:
    """A text such as a word of a command: without logins, and all that is named like a secret."""
    text = _NAMED.sub(rf"\1{HIDDEN}", without_logins(text))
    return _SCHEME.sub(rf"\1 {HIDDEN}", text)


def words_without_secrets(words: Iterable[str]) -> tuple[str, ...]:
    """A command line, with all that is known to be a secret replaced; of --exec see
    `program_alone`."""
    return tuple(_redacted_word(word, before) for before, word in pairwise(("", *words)))


def program_alone(words: Sequence[str]) -> tuple[str, ...]:
    """Of a command of the user's the program: nobody knows which of its words are secrets."""
    hidden = (HIDDEN,) if len(words) > 1 else ()
    return (*map(text_without_secrets, words[:1]), *hidden)


def _redacted_word(word: str, before: str) -> str:
    option, equals, value = word.partition("=")
    if equals and option.startswith("--"):
        return f"{option}={_redacted_word(value, option)}"
    if before == "--exec":
        return " ".join(program_alone(word.split()))
    if before.startswith("-") and is_secret(before):
        return HIDDEN
    user, colon, _ = word.partition(":")
    if before in ("-u", "--user") and colon:
        return f"{user}:{HIDDEN}"
    return text_without_secrets(word)
