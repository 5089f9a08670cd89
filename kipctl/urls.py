"""How a URL may be shown."""

import re

_LOGIN = re.compile(r"""\A(?:[^\s/?#"']*|[^\s/@"':]*+:(?!\d+/)[^\s"']*)@""")
"""After `://`; the second one has a slash in its password, and so is no URL."""


def without_login(url: str) -> str:
    """The same without the user and the password that it may have."""
    return re.sub("//.*@", "//***@", url, flags=re.DOTALL)


def without_logins(text: str) -> str:
    """A text in which no URL has a user or a password."""
    first, *others = text.split("://")  # each is looked at once: brokers may send long ones
    return "://".join([first, *(_LOGIN.sub("***@", other) for other in others)])
