"""SASL as clients speak it: who says what, without the frames around it."""

import base64
import hashlib
import hmac
import re
import secrets
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from kipctl.errors import RefusedError
from kipctl.security.kerberos import GSSAPI, Kerberos, SecurityContext
from kipctl.security.tokens import TokenSource

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = (PLAIN, *_HASHES, OAUTHBEARER, GSSAPI)
_LEAST_ITERATIONS, _MOST_ITERATIONS = 4096, 1_000_000
"""What Java's client takes at least; more than any broker has, and it takes seconds."""


class AuthenticationError(RefusedError):
    """The broker does not take the client for whom it says it is, or the other way round."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """A mechanism and what it proves the client's identity with; secrets are not shown."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token: TokenSource | None = field(default=None, repr=False)
    extensions: tuple[tuple[str, str], ...] = ()
    """Of OAUTHBEARER (KIP-342)."""
    kerberos: Kerberos | None = None

    @property
    def subject(self) -> str:
        """Who logs in, as far as it can be known."""
        if self.kerberos:
            return self.kerberos.subject or "of the ticket"
        return self.username or (self.token and self.token.subject) or "of the token"

    @property
    def if_refused(self) -> str:
        """What to do where a broker refuses this login."""
        source = self.token or self.kerberos
        return (
            source.if_refused
            if source
            else "Check the user's name and password in sasl.jaas.config."
        )

    def is_ready(self) -> bool:
        """Whether `exchange` answers at once: an event loop does not wait for a token."""
        return self.token is None or self.token.is_ready()

    @property
    def takes_long(self) -> bool:
        """Whether `exchange` is nothing for an event loop to wait for: it may ask a KDC."""
        return self.kerberos is not None

    def exchange(self, host: str) -> "Exchange":
        """A new exchange with a broker of this host.

        Raises KipctlError where no token, or no ticket, can be had.
        """
        if self.kerberos:
            return GssApi(*self.kerberos.begin(host))
        if self.mechanism == PLAIN:
            return Plain(self.username, self.password)
        if self.mechanism == OAUTHBEARER:
            assert self.token
            return OAuthBearer(self.token.current().text, dict(self.extensions))
        return Scram(_HASHES[self.mechanism], self.username, self.password)


class Exchange:
    """What the client says, step by step."""

    def first(self) -> bytes:
        """What it begins with."""
        raise NotImplementedError

    def answer(self, challenge: bytes) -> bytes | None:
        """What it answers; None when it has nothing more to say.

        Raises AuthenticationError when the broker does not prove who it is, or refuses.
        """
        raise NotImplementedError

    def takes_long(self, challenge: bytes) -> bool:
        """Whether `answer` to this is nothing for an event loop to wait for."""
        return False


class Plain(Exchange):
    """RFC 4616."""

    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        return None


class OAuthBearer(Exchange):
    """RFC 7628."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        self._token, self._extensions = token, extensions

    def first(self) -> bytes:
        fields = {"auth": f"Bearer {self._token}", **self._extensions}
        pairs = "".join(f"{name}={value}\x01" for name, value in fields.items())
        return f"n,,\x01{pairs}\x01".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        return b"\x01" if challenge else None  # a challenge is an error; then the broker says no


class GssApi(Exchange):
    """RFC 4752, by Kerberos, without a security layer: Kafka's protocol has none behind a login."""

    _NO_LAYER = 1

    def __init__(self, context: SecurityContext, first: bytes) -> None:
        self._context, self._first = context, first
        self._has_chosen = False

    def first(self) -> bytes:
        return self._first

    def answer(self, challenge: bytes) -> bytes | None:
        if self._has_chosen:
            return None
        if not self._context.is_complete:
            return self._context.step(challenge)
        offered = self._context.unwrapped(challenge)
        if len(offered) != 4 or not offered[0] & self._NO_LAYER:
            raise AuthenticationError(
                "The broker wants a security layer of GSSAPI, which Kafka's protocol has not."
            )
        self._has_chosen = True
        # No buffer for messages, and no other identity than the ticket's.
        return self._context.wrapped(bytes([self._NO_LAYER, 0, 0, 0]))


class Scram(Exchange):
    """RFC 5802, without channel binding, which Kafka does not have."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str = "") -> None:
        """`nonce` is drawn unless it is given."""
        self._hash, self._password = hash_name, password
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        said = _attributes(challenge)
        if "e" in said:
            raise AuthenticationError(f"The broker refuses SCRAM: {said['e']}.")
        if "m" in said:  # RFC 5802, 5.1: who does not know the extension must not go on
            raise AuthenticationError("The broker wants an extension of SCRAM that there is not.")
        if self._server_signature is None:
            return self._prove(challenge, said)
        if not hmac.compare_digest(_base64(said.get("v", "")), self._server_signature):
            raise AuthenticationError(
                "The broker does not prove that it knows the password.",
                "It may be another cluster's, or somebody in between.",
            )
        return None

    def takes_long(self, challenge: bytes) -> bool:
        said = _attributes(challenge)
        return self._server_signature is None and self._salted(said) not in _known_keys

    def _salted(self, said: Mapping[str, str]) -> "_Salted":
        return _Salted(self._hash, self._password, _base64(said.get("s", "")), said.get("i", ""))

    def _prove(self, challenge: bytes, said: Mapping[str, str]) -> bytes:
        nonce, salted = said.get("r", ""), self._salted(said)
        iterations = salted.iterations
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salted.salt:
            raise AuthenticationError("The broker's SCRAM challenge does not fit the client's.")
        if not re.fullmatch("[0-9]{1,8}", iterations) or not (
            _LEAST_ITERATIONS <= int(iterations) <= _MOST_ITERATIONS
        ):
            raise AuthenticationError(
                f"The broker asks for {iterations[:20] or 'no'} SCRAM iterations,"
                f" not for {_LEAST_ITERATIONS:,} to {_MOST_ITERATIONS:,}."
            )
        without_proof = f"c=biws,r={nonce}"
        signed = b",".join((self._first_bare.encode(), challenge, without_proof.encode()))
        client_key, server_key = _keys(salted)
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = hmac.digest(stored_key, signed, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(server_key, signed, self._hash)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


class _Salted(NamedTuple):
    """A password, and what a broker wants done with it."""

    hash_name: str
    password: str
    salt: bytes
    iterations: str
    """As it says it."""


_known_keys: dict[_Salted, tuple[bytes, bytes]] = {}
_computed_alone: defaultdict[_Salted, Lock] = defaultdict(Lock)
_MOST_KNOWN = 64


def _keys(salted: _Salted) -> tuple[bytes, bytes]:
    """Client key and server key. It takes milliseconds, and seconds of as many iterations as there
    may be; once, as a user's salt is every broker's.
    """
    if len(_computed_alone) > _MOST_KNOWN:
        _computed_alone.clear()
        _known_keys.clear()
    with _computed_alone[salted]:
        if (known := _known_keys.get(salted)) is not None:
            return known
        name, password, salt, iterations = salted
        key = hashlib.pbkdf2_hmac(name, password.encode(), salt, int(iterations))
        keys = hmac.digest(key, b"Client Key", name), hmac.digest(key, b"Server Key", name)
        _known_keys[salted] = keys
        return keys


def _attributes(message: bytes) -> dict[str, str]:
    return dict(re.findall(r"([a-z])=([^,]*)", message.decode("utf-8", "replace")))


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
