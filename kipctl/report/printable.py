"""Text that came from somewhere else, fit for a terminal."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    r"""Control characters as they are written in Python (`\x1b`), but for new lines and tabs.

    Names and messages of brokers and clients could else move the cursor, or change what is read.
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
