"""Java's old keystores (JKS), as the JDK's `JavaKeyStore` and `KeyProtector` write them.

Integers are big-endian: a magic number, a version, the number of entries, the entries, and a SHA-1
over the password and all before it. A key is hidden under a keystream of SHA-1.
"""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = bytes.fromhex("feedfeed")
_VERSIONS = (1, 2)
_KEY, _CERTIFICATE = 1, 2
_DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_SEQUENCE, _OCTETS = 0x30, 0x04


class WrongPasswordError(ValueError):
    """The store's, or a key's, is another one."""


@dataclass(frozen=True, slots=True)
class JavaStore:
    """Certificates that are trusted, and keys each with its chain; all in DER (keys as PKCS #8)."""

    trusted: tuple[bytes, ...]
    keys: tuple[tuple[bytes, tuple[bytes, ...]], ...]
    """As they are hidden: see `revealed`."""


def java_store(content: bytes, password: str) -> JavaStore:
    """What is in the store. Without a password it is not checked that nobody has changed it, as in
    Java. Raises ValueError for what is no such store, WrongPasswordError.
    """
    whole = content[:-_DIGEST_BYTES]
    given = _utf16(password) + _WHITENER + whole
    if password and not hmac.compare_digest(hashlib.sha1(given).digest(), content[len(whole) :]):
        raise WrongPasswordError("the password is another one, or the file was changed")
    reader = _Reader(whole)
    if reader.take(4) != MAGIC or (version := reader.number(4)) not in _VERSIONS:
        raise ValueError("it is no JKS store")
    trusted, keys = [], []
    for _ in range(reader.number(4)):
        tag = reader.number(4)
        reader.take(reader.number(2))  # its name
        reader.take(8)  # when it came
        if tag == _KEY:
            hidden = reader.take(reader.number(4))
            chain = tuple(reader.certificate(version) for _ in range(reader.number(4)))
            keys.append((hidden, chain))
        elif tag == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        else:
            raise ValueError(f"it has an entry of the kind {tag}")
    return JavaStore(tuple(trusted), tuple(keys))


def revealed(hidden: bytes, password: str) -> bytes:
    """A key in PKCS #8. Raises ValueError for what is no such key, WrongPasswordError."""
    outer = _Reader(_Reader(hidden).der(_SEQUENCE))
    outer.der(_SEQUENCE)  # how it is hidden: there is one way
    inner = _Reader(outer.der(_OCTETS))
    salt = inner.take(_DIGEST_BYTES)
    covered = inner.take(inner.left - _DIGEST_BYTES)
    secret = _utf16(password)
    key = bytes(map(int.__xor__, covered, _keystream(secret, salt)))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), inner.take(_DIGEST_BYTES)):
        raise WrongPasswordError("the key's password is another one")
    return key


def _keystream(secret: bytes, salt: bytes) -> Iterator[int]:
    while True:
        salt = hashlib.sha1(secret + salt).digest()
        yield from salt


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


class _Reader:
    """Takes bytes in turn. Raises ValueError where there are too few."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise ValueError("it ends too soon")
        self._at += size
        return self._content[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.take(self.number(2))  # its kind: X.509
        return self.take(self.number(4))

    def der(self, tag: int) -> bytes:
        """What is in the next element of DER, which is to be of that tag."""
        if self.number(1) != tag:
            raise ValueError("a key is not as JKS has it")
        size = self.number(1)
        return self.take(self.number(size & 0x7F) if size & 0x80 else size)
