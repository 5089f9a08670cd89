"""The lab's certificates: what they are for, and how a wrong one shows itself to a client."""

import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import BasicConstraints, NameOID

from kipctl.lab.certificates import EXPIRED, Authority, Identity, Validity
from kipctl.state import write_private

NOT_YET = Validity(since=timedelta(hours=1), until=timedelta(days=1))
AUTHORITY, UNKNOWN = Authority("ours"), Authority("someone else's")


def trusting(folder: Path, authority: Authority, own: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if own is not None:
        context.load_cert_chain(file_with(folder, own))
    return context


def serving(
    folder: Path, identity: Identity, clients_of: Authority | None = None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file_with(folder, identity))
    if clients_of is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients_of.pem.decode())
    return context


def file_with(folder: Path, identity: Identity) -> Path:
    path = folder / f"{identity.certificate.serial_number}.pem"
    write_private(path, identity.pem)
    return path


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> list[Exception]:
    """What the server, and then the client, has to say against the other."""
    refusals: list[Exception] = []
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with ours, server.wrap_socket(ours, server_side=True) as connected:
                connected.sendall(b"!")
        except OSError as error:
            refusals.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    told: list[Exception] = []
    try:
        with theirs, client.wrap_socket(theirs, server_hostname=name) as connected:
            connected.recv(1)  # with TLS 1.3 the server refuses after the client's handshake
    except OSError as error:
        told.append(error)
    thread.join()
    return refusals + told


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", "localhost"])
def test_a_server_is_known_by_each_of_its_names(tmp_path: Path, name: str) -> None:
    broker = AUTHORITY.for_hosts("broker-1", ("127.0.0.1", "::1", "localhost"))
    assert shake_hands(serving(tmp_path, broker), trusting(tmp_path, AUTHORITY), name) == []


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        (AUTHORITY.for_hosts("broker-1", ["127.0.0.1"], EXPIRED), "certificate has expired"),
        (AUTHORITY.for_hosts("broker-1", ["127.0.0.1"], NOT_YET), "certificate is not yet valid"),
        (AUTHORITY.for_hosts("broker-1", ["127.0.0.2"]), "IP address mismatch"),
        (AUTHORITY.for_user("127.0.0.1"), "unsuitable certificate purpose"),
        (UNKNOWN.for_hosts("broker-1", ["127.0.0.1"]), "self-signed certificate in certificate"),
    ],
)
def test_a_client_tells_apart_what_is_wrong(tmp_path: Path, identity: Identity, told: str) -> None:
    client = trusting(tmp_path, AUTHORITY)
    refusals = shake_hands(serving(tmp_path, identity), client, "127.0.0.1")
    assert [e.verify_message for e in refusals if isinstance(e, ssl.SSLCertVerificationError)] != []
    assert told in str(refusals[-1])


@pytest.mark.parametrize(
    ("user", "told"),
    [
        (AUTHORITY.for_user("alice"), None),
        (None, "peer did not return a certificate"),
        (AUTHORITY.for_user("alice", EXPIRED), "certificate has expired"),
        (AUTHORITY.for_hosts("alice", ["127.0.0.1"]), "unsuitable certificate purpose"),
        (UNKNOWN.for_user("alice"), "self-signed certificate in certificate"),
    ],
)
def test_a_server_tells_apart_what_is_wrong(
    tmp_path: Path, user: Identity | None, told: str | None
) -> None:
    server = serving(tmp_path, AUTHORITY.for_hosts("broker-1", ["127.0.0.1"]), AUTHORITY)
    refusals = shake_hands(server, trusting(tmp_path, AUTHORITY, user), "127.0.0.1")
    if told is None:
        assert refusals == []
    else:
        assert told in str(refusals[0])


def test_a_user_is_the_common_name_and_nothing_else() -> None:
    alice = AUTHORITY.for_user("alice").certificate
    assert alice.subject.rfc4514_string() == "CN=alice"
    assert not alice.extensions.get_extension_for_class(BasicConstraints).value.ca
    assert alice.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "ours"


def test_stores_open_with_their_password_and_no_other() -> None:
    alice = AUTHORITY.for_user("alice")
    opened = pkcs12.load_pkcs12(alice.keystore("secret"), b"secret")
    assert opened.cert is not None
    assert opened.cert.certificate == alice.certificate
    assert [other.certificate for other in opened.additional_certs] == [AUTHORITY.certificate]
    trusted = pkcs12.load_pkcs12(AUTHORITY.truststore("secret"), b"secret")
    assert [entry.certificate for entry in trusted.additional_certs] == [AUTHORITY.certificate]
    for store in (alice.keystore("secret"), AUTHORITY.truststore("secret")):
        with pytest.raises(ValueError, match="password"):
            pkcs12.load_pkcs12(store, b"another")
