"""What an address of a broker's metrics looks like."""

from urllib.parse import urlsplit

from kipctl.errors import UsageError
from kipctl.urls import without_login


def require_url(url: str) -> None:
    """Raise UsageError for what is no address of a web page."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise UsageError(
            f"--metrics-url {without_login(url)!r} is no URL.",
            "Write it as http://HOST:PORT/metrics.",
        )
