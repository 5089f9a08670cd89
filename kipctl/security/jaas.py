"""`sasl.jaas.config`: what Java's clients read in it, and what they refuse."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kipctl.errors import UsageError

_TOKEN = re.compile(
    r"""
    [\x00-\x20]+ | //[^\n\r]* | /\*.*?(?:\*/|\Z) | /[^\n\r]*    # blanks and comments
    | "(?P<double>(?:\\.|[^"\\\n\r])*)"?
    | '(?P<single>(?:\\.|[^'\\\n\r])*)'?
    | (?P<word>[^\x00-\x20"'=;/\x81-\x9f]+)
    | (?P<sign>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPES = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_WRITTEN = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r"}
_UNQUOTED = re.compile(r"""\s*\S+\s+(?P<flag>\w+)(?P<options>(?:\s+[\w.]+=[^\s"']+?)+)\s*;\s*""")
_FLAGS = ("required", "requisite", "sufficient", "optional")


class _Token(NamedTuple):
    """A word, quoted or not, or a sign alone."""

    word: str | None
    sign: str = ""


def jaas_options(text: str) -> dict[str, str]:
    """The options of the one login module; nothing of an empty text.

    Java reads it with its `StreamTokenizer` (Kafka's `JaasConfig`): `MODULE FLAG NAME=VALUE ...;`,
    values in either kind of quotes with the escapes of C, or without if they have no blank, quote,
    slash, `=` or `;`. Raises UsageError for what Java refuses, and shows nothing of it, as it may
    be a part of a password.
    """
    tokens = _tokens(text)
    if next(tokens, None) is None:
        return {}
    flag = next(tokens, _Token(None)).word
    if flag is None or flag.lower() not in _FLAGS:
        raise _refusal(f"does not begin with a login module and one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    for token in tokens:
        if token.sign == ";":
            break
        equals, value = next(tokens, _Token(None)), next(tokens, _Token(None)).word
        if token.word is None or equals.sign != "=" or value is None:
            raise _refusal("has an option without a value, or a value that needs quotes")
        options[token.word] = value
    else:
        raise _refusal("does not end with a semicolon")
    if next(tokens, None) is not None:
        raise _refusal("goes on behind its semicolon: it is to have one login module")
    return options


def unquoted_options(text: str) -> dict[str, str] | None:
    """Those of a line that Java refuses as values have no quotes, where it is plain what is meant:
    no blank and no quote in any of them. None where it is not.
    """
    match = _UNQUOTED.fullmatch(text)
    if match is None or match["flag"].lower() not in _FLAGS:
        return None
    pairs = (pair.partition("=") for pair in match["options"].split())
    return {name: value for name, _, value in pairs}


def jaas_text(module: str, options: Mapping[str, str]) -> str:
    """A line that is read as these options."""
    escaped = (
        (name, "".join(_WRITTEN.get(character, character) for character in value))
        for name, value in options.items()
    )
    return " ".join([module, "required", *(f'{name}="{value}"' for name, value in escaped)]) + ";"


def _refusal(what: str) -> UsageError:
    return UsageError(
        f"sasl.jaas.config {what}.",
        'As in Java: org.apache.kafka...LoginModule required username="..." password="...";',
    )


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "sign":
            yield _Token(None, match["sign"])
        elif kind == "word":
            yield _Token(match["word"])
        elif kind:
            yield _Token(_unescaped(match[kind]))


def _unescaped(quoted: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1][0] in "01234567":
            return chr(int(escape[1], 8))
        return _ESCAPES.get(escape[1], escape[1])

    return re.sub(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", character, quoted, flags=re.DOTALL)
