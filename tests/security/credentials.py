"""What the tests of properties share: an authority, a user's certificate and key, and refusals."""

import re
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
    one.public_bytes(Encoding.PEM).decode() for one in (ALICE.certificate, ALICE.issuer)
)
KEY = ALICE.pem.decode().partition("-----BEGIN CERTIFICATE")[0]
INLINE = {"ssl.keystore.key": KEY, "ssl.keystore.certificate.chain": CHAIN}

SECRETS = re.compile(r"hunter2|BEGIN|MIG|MII")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SSL = {"security.protocol": "SSL"}

Properties = Mapping[str, str]


def refusal(properties: Properties) -> str:
    """What the user reads: short, and without any secret."""
    with pytest.raises(UsageError) as refused:
        security_of(properties)
    text = str(refused.value)
    assert 1 <= len(text.splitlines()) <= 3
    for shown in (text, repr(refused.value), repr(refused.value.__cause__)):
        assert not SECRETS.search(shown)
    return text
