"""Java's properties files, read and written as `java.util.Properties` does."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kipctl.errors import UsageError

_YAML = re.compile(r"^[\w.-]+:[ \t]*\n(?:[ \t]*#.*\n)*(?:[ \t]+|- )\S", re.MULTILINE)
_SPACE = " \t\f"
_READ = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\f": r"\f"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.|$)", re.DOTALL)


def read(path: Path) -> dict[str, str]:
    """The properties in a file. Raises UsageError for one that cannot be read, or is YAML."""
    try:
        content = path.read_text(encoding="utf-8")
        if path.suffix in (".yml", ".yaml") or _YAML.search(content):
            raise UsageError(
                f"{path} is YAML, and kipctl reads Java's properties.",
                "Write each value on a line with its whole name, as security.protocol=SASL_SSL or"
                " spring.kafka.security.protocol=SASL_SSL.",
            )
        return parse(content)
    except (OSError, UnicodeDecodeError, ValueError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else str(wrong)
        raise UsageError(f"The properties file {path} cannot be read: {why}.") from None


def is_ascii(path: Path) -> bool:
    """Whether Java, which takes a file for ISO 8859-1, reads the same in it."""
    return path.expanduser().read_bytes().isascii()


def parse(text: str) -> dict[str, str]:
    r"""`name=value`, `name: value` or `name value` lines; `\` at its end goes on with the next.

    Raises ValueError for a malformed `\uXXXX`. A name without a value has an empty one, as in Java.
    """
    properties = {}
    for line in _logical_lines(text):
        end = _end_of_name(line)
        value = line[end:].lstrip(_SPACE)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_SPACE)
        properties[_unescaped(line[:end])] = _unescaped(value)
    return properties


def text(properties: Mapping[str, str]) -> str:
    """A file's text, in ASCII, that is read as these properties."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in properties.items())


def _logical_lines(text: str) -> Iterator[str]:
    whole = ""
    for line in re.split(r"\r\n|\n|\r", text):
        stripped = line.lstrip(_SPACE)
        if not whole and stripped[:1] in ("", "#", "!"):
            continue
        whole += stripped
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        yield whole
        whole = ""
    if whole:
        yield whole


def _end_of_name(line: str) -> int:
    escaped = False
    for at, character in enumerate(line):
        if not escaped and character in "=:" + _SPACE:
            return at
        escaped = character == "\\" and not escaped
    return len(line)


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if escape == "u":
            raise ValueError(r"a \u is not followed by four hexadecimal digits")
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _READ.get(escape, escape)

    plain = _ESCAPE.sub(character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16")  # pairs become one character


def _escaped(text: str) -> str:
    escaped = re.sub(r"[\\:=#! \t\n\r\f]", lambda c: _WRITTEN.get(c[0], "\\" + c[0]), text)
    return "".join(c if " " <= c <= "~" else _utf16(c) for c in escaped)


def _utf16(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(rf"\u{units[at : at + 4]}" for at in range(0, len(units), 4))
