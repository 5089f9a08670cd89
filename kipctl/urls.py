"""How a URL may be shown."""

import re


def without_login(url: str) -> str:
    """The same without the user and the password that it may have."""
    return re.sub("//.*@", "//***@", url, flags=re.DOTALL)
