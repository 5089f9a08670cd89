"""What the other side of a secured connection needs: a server's TLS, and the answers to a login."""

import base64
import hashlib
import hmac
import ssl
from collections.abc import Callable
from tempfile import NamedTemporaryFile
from typing import Any

from scripted_broker import Answers, Asked

from kipctl.lab.certificates import Authority, Identity, Validity
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Response
from kipctl.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security
from kipctl.security.tls import Tls
from kipctl.security.tokens import UnsignedToken
from kipctl.transport.access import Access

AUTHORITY = Authority()
TLS = Tls(authorities=AUTHORITY.pem.decode())
USER, PASSWORD = "alice", "wonder, land="
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN = Sasl("PLAIN", USER, PASSWORD)


def loopback(authority: Authority = AUTHORITY, validity: Validity | None = None) -> Identity:
    return authority.for_hosts("broker", ("127.0.0.1", "localhost"), validity)


def server_context(identity: Identity, clients_of: Authority | None = None) -> ssl.SSLContext:
    """Of a server that shows this identity, and lets in clients of that authority alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with NamedTemporaryFile() as file:
        file.write(identity.pem)
        file.flush()
        context.load_cert_chain(file.name)
    if clients_of:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients_of.pem.decode())
    return context


def wrapped(context: ssl.SSLContext) -> Callable[[Any], ssl.SSLSocket]:
    """For a broker's `secure`: it shakes hands with its first read."""
    return lambda accepted: context.wrap_socket(
        accepted, server_side=True, do_handshake_on_connect=False
    )


def access(tls: Tls | None = TLS, sasl: Sasl | None = None, servers: str = "") -> Access:
    return Access(servers, Security(tls, sasl))


def refusal(why: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, why)


class ScramServer:
    """RFC 5802's other half, written apart from the client's."""

    def __init__(self, hash_name: str, password: str, salt: bytes = b"salty", count: int = 4096):
        self._hash, self._salt, self._count = hash_name, salt, count
        self._salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, count)
        self._said = b""

    def challenge(self, first: bytes) -> bytes:
        bare = first.removeprefix(b"n,,")
        nonce = bare.partition(b",r=")[2] + b"+server"
        answer = b"r=%b,s=%b,i=%d" % (nonce, base64.b64encode(self._salt), self._count)
        self._said = bare + b"," + answer
        return answer

    def verdict(self, final: bytes) -> bytes | None:
        """The server's signature; None for a wrong proof."""
        without_proof, _, proof = final.rpartition(b",p=")
        said = self._said + b"," + without_proof
        stored = hashlib.new(self._hash, self._hmac(self._salted, b"Client Key")).digest()
        client_key = bytes(
            a ^ b for a, b in zip(base64.b64decode(proof), self._hmac(stored, said), strict=True)
        )
        if hashlib.new(self._hash, client_key).digest() != stored:
            return None
        signature = self._hmac(self._hmac(self._salted, b"Server Key"), said)
        return b"v=" + base64.b64encode(signature)

    def _hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, self._hash).digest()


class Logins:
    """A scripted broker's answers that ask for a login, of USER, before anything else."""

    def __init__(
        self,
        then: Answers = lambda asked: None,
        session_ms: int = 0,
        iterations: int = 4096,
        salt: bytes = b"salty",
    ) -> None:
        """`then` answers what is asked after a login; the others are SCRAM's."""
        self.then, self.session_ms = then, session_ms
        self._iterations, self._salt = iterations, salt
        self.count = 0
        """Logins begun."""
        self._mechanism: dict[Any, str] = {}
        self._scram: dict[Any, ScramServer] = {}

    def __call__(self, asked: Asked) -> Response | bytes | None:
        return self.answer(asked.connection, asked.request) or self.then(asked)

    def answer(self, connection: Any, request: Any) -> Response | None:
        """None to what is no request of a login, which has to come after one."""
        match request:
            case SaslHandshakeRequest(mechanism):
                self.count += 1
                self._mechanism[connection] = mechanism
                self._scram.pop(connection, None)
                return SaslHandshakeResponse(
                    0, ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
                )
            case SaslAuthenticateRequest(said):
                return self._authenticate(connection, said)
        assert connection in self._mechanism, request
        return None

    def _authenticate(self, connection: Any, said: bytes) -> SaslAuthenticateResponse:
        done = SaslAuthenticateResponse(session_lifetime_ms=self.session_ms)
        mechanism = self._mechanism[connection]
        if mechanism == "PLAIN":
            is_known = said == f"\0{USER}\0{PASSWORD}".encode()
            return done if is_known else refusal("Wrong name or password.")
        if mechanism == "OAUTHBEARER":  # any token is taken
            return done if b"auth=Bearer " in said else refusal("No token.")
        if connection not in self._scram:
            hash_name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
            self._scram[connection] = ScramServer(hash_name, PASSWORD, self._salt, self._iterations)
            challenge = self._scram[connection].challenge(said)
            return SaslAuthenticateResponse(auth_bytes=challenge)
        verdict = self._scram[connection].verdict(said)
        if verdict is None:
            return refusal("Wrong name or password.")
        return SaslAuthenticateResponse(auth_bytes=verdict, session_lifetime_ms=self.session_ms)


def in_turn(*answers: Response) -> Answers:
    """A script that answers so, whatever it is asked; then it is silent."""
    left = [*answers]
    return lambda asked: left.pop(0) if left else None


def an_impostor() -> Answers:
    """A broker that does not know the password, and lets everybody in."""
    logins = Logins()

    def answers(asked: Asked) -> Response | bytes | None:
        answer = logins(asked)
        if isinstance(answer, SaslAuthenticateResponse) and answer.auth_bytes.startswith(b"v="):
            return SaslAuthenticateResponse(auth_bytes=b"v=AAAA")
        return answer

    return answers


REFUSED = r"User 'alice' is refused by broker 127\.0\.0\.1:\d+"
LETS_BEGIN = SaslHandshakeResponse()
FAILING_LOGINS: list[tuple[Callable[[], Answers], Sasl, str]] = [
    *(
        (Logins, Sasl(name, USER, "guess"), rf"{REFUSED} \({name}\): Wrong name or password\.")
        for name in PASSWORD_MECHANISMS
    ),
    # A broker that gives no words is given those of its error.
    (
        lambda: in_turn(LETS_BEGIN, SaslAuthenticateResponse(58)),
        *(PLAIN, rf"{REFUSED} \(PLAIN\): SASL authentication failed\."),
    ),
    (
        lambda: in_turn(SaslHandshakeResponse(33, ("GSSAPI", "SCRAM-SHA-256"))),
        *(PLAIN, "does not offer PLAIN; it offers GSSAPI, SCRAM-SHA-256"),
    ),
    (lambda: in_turn(SaslHandshakeResponse(34)), PLAIN, "takes no login over SASL"),
    # First there is a challenge that says why, as RFC 7628 wants it; the client lets go.
    (
        lambda: in_turn(
            LETS_BEGIN,
            SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'),
            SaslAuthenticateResponse(58, "The token is of another realm"),
        ),
        Sasl("OAUTHBEARER", token=UnsignedToken((("sub", "alice"),))),
        r"\(OAUTHBEARER\): The token is of another realm",
    ),
    (an_impostor, Sasl("SCRAM-SHA-256", USER, PASSWORD), "does not prove that it knows the passw"),
]
"""Scripts, who logs in, and the reason that both kinds of connections give."""
