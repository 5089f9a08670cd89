"""How a URL may be shown."""

import re

_LOGIN = re.compile(r"""://(?:[^\s/?#"']*|[^\s/@"']*:(?!\d+/)[^\s"']*)@""")
"""In a text; the second one has a slash in its password, and so is no URL."""


def without_login(url: str) -> str:
    """The same without the user and the password that it may have."""
    return re.sub("//.*@", "//***@", url, flags=re.DOTALL)


def without_logins(text: str) -> str:
    """A text in which no URL has a user or a password."""
    return _LOGIN.sub("://***@", text) if "://" in text else text
