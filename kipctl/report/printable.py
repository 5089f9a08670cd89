"""Text that came from somewhere else, as it is shown: nothing in it is obeyed, or not seen."""

import re

_NOT_PLAIN = re.compile(r"[^ -~\n\t]+")


def printable(text: str) -> str:
    r"""The text, with what Python does not print as Python writes it, but for new lines and tabs.

    That is `\x1b` and all other controls, `\u202e` and others that turn the direction of reading,
    line separators, what has no width, half a pair of surrogates. They could else move the cursor,
    or change what is read.
    """
    return _NOT_PLAIN.sub(_shown, text)


def on_one_line(text: str) -> str:
    r"""`printable`, and new lines and tabs as `\n` and `\t`: it draws no second line."""
    return printable(text).replace("\n", r"\n").replace("\t", r"\t")


def _shown(match: re.Match[str]) -> str:
    if match[0].isprintable():
        return match[0]
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in match[0])
