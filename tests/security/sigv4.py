"""Who has signed a URL by AWS's Signature Version 4, as its documentation says how to find out.

Written from docs.aws.amazon.com/IAM, "Create a signed AWS API request" (query parameters), apart
from AWS's libraries; and what an MSK broker asks of a token.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, urlsplit

EMPTY = hashlib.sha256(b"").hexdigest()
_ADDED_LATER = ("X-Amz-Signature", "User-Agent")
"""Of the second AWS's signers for MSK say who they are; it is no part of what is signed."""


class RefusedTokenError(Exception):
    """With the reason."""


def signature(url: str, secret: str, payload: str = EMPTY) -> str:
    """What a GET of this URL is to be signed with, with the host as the only signed header."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(text, safe="-_.~"))
        for name, text in query.items()
        if name not in _ADDED_LATER
    )
    canonical = "\n".join(
        (
            "GET",
            parts.path or "/",
            "&".join(f"{name}={text}" for name, text in pairs),
            f"host:{parts.netloc}\n",
            "host",
            payload,
        )
    )
    scope = query["X-Amz-Credential"].partition("/")[2]
    signed = "\n".join(
        (
            "AWS4-HMAC-SHA256",
            query["X-Amz-Date"],
            scope,
            hashlib.sha256(canonical.encode()).hexdigest(),
        )
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, signed.encode(), "sha256").hex()


def url_of(token: str) -> str:
    """What a token for MSK is: a URL, in base64 for URLs without padding."""
    if "=" in token:
        raise RefusedTokenError("it is padded")
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def signer_of(token: str, secrets: Mapping[str, str], region: str) -> str:
    """The access key that has signed a token which is good now; `secrets` are of keys by their id.

    Raises RefusedTokenError.
    """
    try:
        url = url_of(token)
        parts, query = urlsplit(url), dict(parse_qsl(urlsplit(url).query))
        key_id, date, *scope = query["X-Amz-Credential"].split("/")
        signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        lifetime_s = int(query["X-Amz-Expires"])
    except (ValueError, KeyError) as wrong:
        raise RefusedTokenError(f"it is no signed URL: {wrong!r}") from wrong
    now = datetime.now(UTC)
    demands = {
        "its host is another": (parts.scheme, parts.netloc)
        == ("https", f"kafka.{region}.amazonaws.com"),
        "it is for another action": query.get("Action") == "kafka-cluster:Connect",
        "it is of another scope": scope == [region, "kafka-cluster", "aws4_request"],
        "its dates differ": query["X-Amz-Date"].startswith(date),
        "it lasts too long": 0 < lifetime_s <= 900,
        "its time is not now": signed - timedelta(minutes=5)
        <= now
        < signed + timedelta(seconds=lifetime_s),
        "its key is not known": key_id in secrets,
        "its signature is another": hmac.compare_digest(
            query.get("X-Amz-Signature", ""), signature(url, secrets.get(key_id, ""))
        ),
    }
    for why, is_met in demands.items():
        if not is_met:
            raise RefusedTokenError(why)
    return key_id
