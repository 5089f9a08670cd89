"""A lab whose brokers ask this test about each token of OAUTHBEARER, as MSK's would ask AWS.

Kafka's own validators take JSON Web Tokens alone. This one (`AskedValidator.java`) is compiled by
Janino, which Spark brings along, so that no JDK is needed.
"""

import base64
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from aws import KEY_ID, REGION, SECRET
from py4j.java_gateway import JavaGateway
from sigv4 import RefusedTokenError, signer_of
from token_endpoint import Answer, Endpoint, jwt

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.lab.security import Security

COMPILER = tuple(
    path
    for name in ("janino", "commons-compiler")
    for path in (Path(pyspark.__file__).parent / "jars").glob(f"{name}-*.jar")
)
LIFETIME_S = 900
_CLASS = "kipctl.tests.AskedValidator"
_MANIFEST = f"Manifest-Version: 1.0\nPremain-Class: {_CLASS}\n"


def signed(subject: str) -> str:
    """A JSON Web Token of this test's own authority, with the claims that Java's client wants."""
    now = int(time.time())
    return jwt(sub=subject, iat=now, exp=now + LIFETIME_S, scope="kafka")


class TokensAuthority(Endpoint):
    """Asked by brokers who somebody is by his token: who has AWS's key is admin."""

    def __init__(self) -> None:
        super().__init__()
        self.give = self._judge

    def _judge(self) -> Answer:
        (_, form) = self.asked[-1]
        token = form["token"]
        if "." in token:
            _, claims, signature = token.split(".")
            if signature != signed("").rpartition(".")[2]:
                return Answer(401, b"its signature is another")
            told = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
            return Answer(200, f"{told['sub']} {told['exp'] * 1000}".encode())
        try:
            signer_of(token, {KEY_ID: SECRET}, REGION)
        except RefusedTokenError as refused:
            return Answer(401, str(refused).encode())
        return Answer(200, f"admin {int(time.time() + LIFETIME_S) * 1000}".encode())


@contextmanager
def asked_lab(gateway: JavaGateway, folder: Path, authority: TokensAuthority) -> Iterator[Lab]:
    """1 broker whose listener for clients speaks SASL over TLS; the JVM has COMPILER in it.

    Sessions end after 5 s (KIP-368).
    """
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(Path(__file__).with_name("AskedValidator.java").read_text())
    agent = folder / "validator.jar"
    with zipfile.ZipFile(agent, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", _MANIFEST)
        for name, code in compiler.getBytecodes().items():
            jar.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    spec = LabSpec(
        name="asked",
        brokers=1,
        c1_only=True,
        security=Security.SASL_SSL,
        acl=True,
        config=(
            ("listener.name.clients.oauthbearer.sasl.server.callback.handler.class", _CLASS),
            ("connections.max.reauth.ms", "5000"),
        ),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", f"-javaagent:{agent}={authority.url}")
        lab = Lab.up(spec, lambda text: None)
    try:
        yield lab
    finally:
        lab.down()
