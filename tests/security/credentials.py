"""What the tests of properties share: an authority, a user's certificate and key, and refusals."""

import hashlib
import re
import struct
from collections.abc import Mapping

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kipctl.errors import UsageError
from kipctl.lab.certificates import Authority
from kipctl.security.settings import security_of

AUTHORITY = Authority()
ALICE = AUTHORITY.for_user("alice")
CA = AUTHORITY.pem.decode()
CHAIN = "".join(
    cert.public_bytes(Encoding.PEM).decode() for cert in (ALICE.certificate, ALICE.issuer)
)
KEY = ALICE.pem.decode().partition("-----BEGIN CERTIFICATE")[0]
INLINE = {"ssl.keystore.key": KEY, "ssl.keystore.certificate.chain": CHAIN}

SECRETS = re.compile(r"hunter2|BEGIN|MIG|MII")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SSL = {"security.protocol": "SSL"}

Properties = Mapping[str, str]


def java_keystore(key: bytes, certificate: bytes, password: str) -> bytes:
    """A JKS store, as `JavaKeyStore` writes it, of a key in PKCS #8 and its certificate in DER."""
    secret, salt = password.encode("utf-16-be"), bytes(20)
    stream, last = b"", salt
    while len(stream) < len(key):
        last = hashlib.sha1(secret + last).digest()
        stream += last
    covered = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    hidden = salt + covered + hashlib.sha1(secret + key).digest()
    octets = b"\x04\x82" + struct.pack(">H", len(hidden)) + hidden
    whole = b"\x30\0" + octets
    hidden = b"\x30\x82" + struct.pack(">H", len(whole)) + whole
    entry = struct.pack(">i", 1) + b"\0\2me" + bytes(8) + struct.pack(">i", len(hidden)) + hidden
    chain = struct.pack(">i", 1) + b"\0\5X.509" + struct.pack(">i", len(certificate)) + certificate
    store = bytes.fromhex("feedfeed") + struct.pack(">ii", 2, 1) + entry + chain
    return store + hashlib.sha1(secret + b"Mighty Aphrodite" + store).digest()


def refusal(properties: Properties) -> str:
    """What the user reads: short, and without any secret."""
    with pytest.raises(UsageError) as refused:
        security_of(properties)
    text = str(refused.value)
    assert 1 <= len(text.splitlines()) <= 3
    for shown in (text, repr(refused.value), repr(refused.value.__cause__)):
        assert not SECRETS.search(shown)
    return text
