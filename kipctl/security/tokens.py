"""Bearer tokens: from a file, a token endpoint or AWS's signer, or unsigned, for development."""

import base64
import json
import math
import re
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kipctl.errors import (
    KipctlError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.security import msk
from kipctl.security.tls import Tls
from kipctl.urls import without_login

_TOKEN = re.compile("[!-~]+")
_REFRESH_AT = 0.8
"""Of its lifetime: then a token is replaced (Java's `sasl.login.refresh.window.factor`)."""
_ENDPOINT_TIMEOUT_S = 10.0
_ATTEMPTS = 3
_UNSIGNED_LIFETIME_S = 3600
_UNKNOWN_LIFETIME_S = 300.0
_RETRY_S = 1.0
REFRESHING = "kipctl-token"
"""The name of the threads that fetch tokens in the background."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and until when it is good, in seconds of the system's clock (None: not known)."""

    text: str = field(repr=False)
    expires_s: float | None


class TokenSource(ABC):
    """Where tokens come from. Its kinds are `TOKEN_SOURCES`: dataclasses of different fields."""

    __slots__ = ()

    @abstractmethod
    def current(self) -> Token:
        """One that is good now. Raises KipctlError."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether `current` answers at once. If not, it will: a token is being fetched."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """Whom a token is of, without asking for one; "" if that is not known."""

    @property
    def if_refused(self) -> str:
        """What to do where a broker refuses its tokens."""
        return "Check where the token is from, and whom it is of: sasl.jaas.config."


class _FetchedToken(TokenSource):
    """It takes a while to have one, so it is used until most of its lifetime is over; then another
    is fetched in the background, so that nobody waits for it.
    """

    __slots__ = ()

    def is_ready(self) -> bool:
        return _cache.valid(self, refresh_at_once=True) is not None

    def current(self) -> Token:
        return _cache.valid(self, refresh_at_once=False) or _cache.fetch(self)

    @abstractmethod
    def fetch(self) -> Token:
        """A new one. Raises KipctlError."""


@dataclass(frozen=True, slots=True)
class FileToken(TokenSource):
    """A file that somebody keeps fresh: it is read again for each login."""

    path: Path

    def is_ready(self) -> bool:
        return True

    @property
    def subject(self) -> str:
        return str(_claims(self.current().text).get("sub", ""))

    def current(self) -> Token:
        try:
            text = self.path.read_text(encoding="latin-1").strip()
        except OSError as wrong:
            raise UsageError(f"The token {self.path} cannot be read: {wrong.strerror}.") from None
        if not _TOKEN.fullmatch(text):
            raise UsageError(f"The file {self.path} holds no token.")
        return Token(text, _expiry(text))


@dataclass(frozen=True, slots=True)
class UnsignedToken(TokenSource):
    """An unsigned token, as Java's client makes it for development: anybody can be whoever."""

    claims: tuple[tuple[str, Any], ...]
    lifetime_s: int = _UNSIGNED_LIFETIME_S

    def is_ready(self) -> bool:
        return True

    @property
    def subject(self) -> str:
        return str(dict(self.claims).get("sub", ""))

    def current(self) -> Token:
        now = float(int(time.time()))  # a broker's clock has milliseconds, and is not to be behind
        claims = {**dict(self.claims), "iat": now, "exp": now + self.lifetime_s}
        parts = (_encoded({"alg": "none"}), _encoded(claims), "")
        return Token(".".join(parts), now + self.lifetime_s)


@dataclass(frozen=True, slots=True)
class ClientCredentials(_FetchedToken):
    """A token endpoint, asked with a client's id and secret (KIP-768)."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str
    tls: Tls

    @property
    def subject(self) -> str:
        """That of the last token, which may be another than the client's id at the endpoint."""
        token = _cache.last(self)
        return str((token and _claims(token.text).get("sub")) or self.client_id)

    def fetch(self) -> Token:
        """Ask the endpoint, a few times in 10 s. Raises UnreachableError, RefusedError."""
        from kipctl.http_exchange import exchange

        asked = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        shown, failure, context = without_login(self.url), "", self.tls.context()
        until = time.monotonic() + _ENDPOINT_TIMEOUT_S
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.1 * 4**attempt)
            try:
                answer = exchange(
                    self.url,
                    max(0.0, until - time.monotonic()) / (_ATTEMPTS - attempt),
                    form=asked,
                    login=(self.client_id, self.client_secret),
                    context=context,
                )
            except (UnreachableError, TimedOutError) as error:
                failure = error.what
                continue
            if answer.status < 500:
                return self._token(answer.status, answer.body)
            failure = f"HTTP {answer.status}"
        raise UnreachableError(f"The token endpoint {shown} gives no token: {failure}.")

    def _token(self, status: int, content: bytes) -> Token:
        said = _json_object(content)
        text = said.get("access_token")
        if status != 200 or not isinstance(text, str) or not _TOKEN.fullmatch(text):
            why = said.get("error")
            raise RefusedError(
                f"The token endpoint {without_login(self.url)} refuses client {self.client_id!r}:"
                f" HTTP {status}{f', {why[:80]}' if isinstance(why, str) else ''}.",
                "Check the client's id, secret and scope.",
            )
        lifetime_s = _number(said.get("expires_in"))
        return Token(text, _expiry(text) if lifetime_s is None else time.time() + lifetime_s)


@dataclass(frozen=True, slots=True)
class MskToken(_FetchedToken):
    """What Amazon MSK takes of who may use credentials of AWS's: see `kipctl.security.msk`.

    Whose they are is a profile, a role that is assumed, or, with neither, what AWS's libraries find
    where the token is fetched. `sts_region` is where the role is asked for ("" for `region`).
    """

    region: str
    profile: str
    role_arn: str
    session_name: str
    external_id: str
    sts_region: str

    @property
    def of_whom(self) -> str:
        """For messages."""
        return (
            f"of role {self.role_arn}"
            if self.role_arn
            else f"of profile {self.profile!r}"
            if self.profile
            else "on this machine"
        )

    @property
    def subject(self) -> str:
        """What MSK knows it by is not known here: the role, or else the last token's access key."""
        token = _cache.last(self)
        return self.role_arn or (msk.key_id(token.text) if token else "")

    @property
    def if_refused(self) -> str:
        return (
            "Check that its IAM policy allows kafka-cluster:Connect, that the cluster is in"
            f" {self.region}, and the clock of this machine."
        )

    def fetch(self) -> Token:
        """See `msk.fetched`."""
        return msk.fetched(self)


TOKEN_SOURCES = (FileToken, UnsignedToken, ClientCredentials, MskToken)


class _Cache:
    """The last token of each source, and the threads that fetch the next ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[_FetchedToken, tuple[Token, float]] = {}
        """With the time at which each is to be replaced."""
        self._refreshing: set[_FetchedToken] = set()

    def valid(self, source: _FetchedToken, refresh_at_once: bool) -> Token | None:
        """The token, if there is one that is good now.

        Another is fetched in the background when it is soon to end, and, if that is asked for,
        where there is none.
        """
        with self._lock:
            token, refresh_s = self._tokens.get(source, (None, 0.0))
            now = time.time()
            if token is not None and token.expires_s is not None and token.expires_s <= now:
                token = None
            is_due = now >= refresh_s if token is not None else refresh_at_once
            if is_due and source not in self._refreshing:
                self._refreshing.add(source)
                threading.Thread(
                    target=self._refresh, args=(source,), name=REFRESHING, daemon=True
                ).start()
            return token

    def last(self, source: _FetchedToken) -> Token | None:
        """The newest token, whether it is good now or not."""
        with self._lock:
            return self._tokens.get(source, (None,))[0]

    def fetch(self, source: _FetchedToken) -> Token:
        """A new one. Raises what its `fetch` does."""
        token = source.fetch()
        now = time.time()
        lifetime_s = _UNKNOWN_LIFETIME_S if token.expires_s is None else token.expires_s - now
        with self._lock:
            self._tokens[source] = token, now + lifetime_s * _REFRESH_AT
        return token

    def _refresh(self, source: _FetchedToken) -> None:
        try:
            self.fetch(source)
        except KipctlError:
            time.sleep(_RETRY_S)  # who needs a token asks again
        finally:
            with self._lock:
                self._refreshing.discard(source)


_cache = _Cache()


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _expiry(text: str) -> float | None:
    """When a JSON Web Token says that it ends; None for any other token."""
    return _number(_claims(text).get("exp"))


def _claims(text: str) -> dict[str, object]:
    """What a JSON Web Token says of itself; nothing for any other token."""
    try:
        part = text.split(".")[1]
        return _json_object(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}


def _json_object(content: bytes) -> dict[str, object]:
    """Empty for what is none."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _number(value: object) -> float | None:
    """None for what is none, or not finite."""
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
