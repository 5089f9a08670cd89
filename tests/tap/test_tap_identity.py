"""As whom brokers see what comes through a tap that has a client certificate, and who may connect.

What brokers see is the tap's certificate; a login (SASL) is the client's own, and passes.
"""

import io
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from raw_peers import ALL_METADATA, RawBroker, RawClient, Tap
from scripted_broker import Asked, ScriptedBroker, a_loopback
from secure_peers import AUTHORITY, loopback, server_context

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.errors import UsageError
from kipctl.lab.certificates import Authority
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker
from kipctl.protocol.topics import DeleteTopicsRequest, DeleteTopicsResponse
from kipctl.report.tap_tables import exposure
from kipctl.security.settings import Security
from kipctl.security.tls import Tls
from kipctl.tap.peer_user import is_of_this_user
from kipctl.tap.process import running_tap
from kipctl.tap.spec import Lend, TapSpec, TlsFiles
from kipctl.transport.access import Access

ADMIN = AUTHORITY.for_user("admin").pem.decode()
OPERATOR = Tls(
    authorities=AUTHORITY.pem.decode(),
    chain=ADMIN[ADMIN.index("-----BEGIN CERTIFICATE") :],
    key=ADMIN[: ADMIN.index("-----BEGIN CERTIFICATE")],
)
DELETE = DeleteTopicsRequest(topic_names=("payments",))


class MutualBroker(ScriptedBroker):
    """It lets in who has a certificate of the authority, and notes as whom topics were deleted."""

    def __init__(self) -> None:
        self.deleted_by: list[str] = []
        context = server_context(loopback(), clients_of=AUTHORITY)

        def secure(accepted: socket.socket) -> ssl.SSLSocket:
            return context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)

        super().__init__(self._answers, secure=secure)

    def _answers(self, asked: Asked) -> Any:
        if isinstance(asked.request, DeleteTopicsRequest):
            shown: Any = self._connections[asked.connection]
            ((_, name),) = shown.getpeercert()["subject"][-1]
            self.deleted_by.append(name)
            return DeleteTopicsResponse()
        if asked.request.api.key == ALL_METADATA.api.key:
            here = MetadataResponseBroker(1, "127.0.0.1", self.port)
            return MetadataResponse(brokers=(here,), cluster_id="prod-id")
        return None


@pytest.fixture(scope="module")
def broker() -> Iterator[MutualBroker]:
    with MutualBroker() as broker:
        yield broker


def deleted_through(tap: Any, client: RawClient | None = None) -> None:
    with client or RawClient(tap.bootstrap_server, "mallory") as client:
        client.ask(DELETE, 5)


def test_another_client_does_not_act_as_the_operator_unasked(broker: MutualBroker) -> None:
    spec = TapSpec(access=Access(broker.address, Security(OPERATOR)))
    with pytest.raises(UsageError, match="CN=admin"), running_tap(spec, None) as tap:
        deleted_through(tap)
    assert broker.deleted_by == []


def test_what_is_lent_is_what_brokers_see(broker: MutualBroker) -> None:
    access = Access(broker.address, Security(OPERATOR))
    for lends in (Lend.EVERYBODY, Lend.THIS_USER):  # this very user is at the other end
        broker.deleted_by.clear()
        with running_tap(TapSpec(access=access, lends=lends), None) as tap:
            deleted_through(tap)
        assert broker.deleted_by == ["admin"]
    broker.deleted_by.clear()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_what_is_lent_to_this_user_is_lent_to_no_other(broker: MutualBroker) -> None:
    access = Access(broker.address, Security(OPERATOR))
    with running_tap(TapSpec(access=access, lends=Lend.THIS_USER), None) as running:
        tap, pid = Tap(running), os.fork()
        if not pid:
            try:
                os.setuid(65534)
                with RawClient(tap.bootstrap_server, "mallory") as client:
                    client.send(DELETE, 5)
                    os._exit(0 if client.is_closed() else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert "it is another user's" in tap.complaint()
    assert broker.deleted_by == []


@pytest.mark.parametrize("host", sorted({"127.0.0.1", a_loopback()}))
def test_whose_a_connection_on_this_machine_is(host: str, monkeypatch: Any) -> None:
    family = socket.getaddrinfo(host, 0)[0][0]
    with (
        socket.create_server((host, 0), family=family) as listening,
        socket.create_connection(listening.getsockname()[:2]) as client,
    ):
        accepted, _ = listening.accept()
        with accepted:
            ends = accepted.getpeername()[:2], accepted.getsockname()[:2]
            assert is_of_this_user(*ends)
            stranger = os.getuid() + 1
            monkeypatch.setattr(os, "getuid", lambda: stranger)
            assert not is_of_this_user(*ends)
            monkeypatch.undo()
            client.close()
            assert not is_of_this_user(*ends), "nobody is there any more"


# --- --client-ca ---


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    folder = tmp_path_factory.mktemp("tls")
    (folder / "tap.pem").write_bytes(loopback().pem)
    (folder / "ca.pem").write_bytes(AUTHORITY.pem)
    return TlsFiles(certificate=str(folder / "tap.pem"), client_ca=str(folder / "ca.pem"))


def client_of(tap: Any, authority: Authority | None) -> RawClient:
    """With a certificate of that authority."""
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    if authority:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "client.pem"
            file.write_bytes(authority.for_user("alice").pem)
            context.load_cert_chain(file)
    client = RawClient(tap.bootstrap_server)
    client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
    return client


def test_a_client_without_a_certificate_of_the_authority_is_not_let_in(files: TlsFiles) -> None:
    with RawBroker() as broker:
        spec = TapSpec(access=Access(broker.address), tls=files)
        with running_tap(spec, None) as running:
            tap = Tap(running)
            with client_of(tap, AUTHORITY) as client:
                assert client.exchange()
            before = len(broker.asked)
            for authority in (None, Authority("another")):
                with pytest.raises(OSError), client_of(tap, authority) as client:  # noqa: PT011
                    client.ask(ALL_METADATA, 12)
                assert "TLS is not agreed upon" in tap.complaint()
            assert len(broker.asked) == before


# --- the command ---


@pytest.fixture
def operator(tmp_path: Path) -> dict[str, str]:
    """Variables of an operator, who is admin by his certificate."""
    pem, ca = tmp_path / "admin.pem", tmp_path / "ca.pem"
    pem.write_text(ADMIN)
    ca.write_bytes(AUTHORITY.pem)
    (tmp_path / "admin.properties").write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={pem}\n"
    )
    return {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}


def tapped(operator: dict[str, str], broker: MutualBroker, words: str) -> tuple[int, str]:
    """The status of a tap, and what it says; `prod` is a protected cluster, `test` is not."""
    folder = Path(operator["XDG_CONFIG_HOME"])
    toml = folder / "kipctl" / "clusters.toml"
    toml.parent.mkdir(exist_ok=True)
    is_protected = "false" if "test" in words else "true"
    toml.write_text(
        f'[{"test" if "test" in words else "prod"}]\nbootstrap_servers = "{broker.address}"\n'
        f'command_config = "{folder}/admin.properties"\nprotected = {is_protected}\n'
        'id = "prod-id"\n'
    )
    words = words.replace("ADDRESS", broker.address).replace("FOLDER", str(folder))
    err = io.StringIO()
    given = ["tap", *words.split(), "--for", "10ms"]
    return run(given, Environment(io.StringIO(), io.StringIO(), err, operator)), err.getvalue()


BY_ADDRESS = "--bootstrap-server ADDRESS --command-config FOLDER/admin.properties"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("--cluster test", 2, "CN=admin"),
        ("--cluster test", 2, "--lend-identity"),
        ("--cluster test --lend-identity", 0, "every user of this machine is CN=admin"),
        ("--cluster prod --lend-identity", 2, "--yes --expect-cluster ID"),
        ("--cluster prod --lend-identity --yes", 2, "protected: --yes alone does not answer"),
        ("--cluster prod --lend-identity --yes --expect-cluster prod-id", 0, "is CN=admin"),
        # The protected one, by its address.
        (f"{BY_ADDRESS} --lend-identity --yes", 2, "protected: --yes alone does not answer"),
        ("--cluster test --lend-identity --client-ca FOLDER/ca.pem", 2, "--certificate"),
        (
            "--cluster test --lend-identity --client-ca /none --certificate FOLDER/admin.pem",
            *(2, "/none cannot be used"),
        ),
        (
            "--cluster test --lend-identity --client-ca FOLDER/ca.pem"
            " --certificate FOLDER/admin.pem",
            *(0, "ca.pem is CN=admin"),
        ),
        (
            "--bootstrap-server ADDRESS --tls-to-brokers --ca FOLDER/ca.pem --lend-identity",
            *(2, "there is none"),
        ),
    ],
)
def test_the_command_lends_what_it_was_told_to(
    words: str, status: int, told: str, operator: dict[str, str], broker: MutualBroker
) -> None:
    ended, said = tapped(operator, broker, words)
    assert (ended, told in said) == (status, True), said


LOOPBACK, EVERYWHERE = "127.0.0.1:9192", "0.0.0.0:9192"


@pytest.mark.parametrize(
    ("listen", "is_lent", "tls", "told"),
    [
        (LOOPBACK, False, TlsFiles(), []),
        (LOOPBACK, False, TlsFiles(certificate="c"), []),
        (LOOPBACK, True, TlsFiles(), ["every user of this machine is CN=admin", "Nothing else"]),
        (EVERYWHERE, True, TlsFiles(), ["whoever reaches it is CN=admin", ", unencrypted"]),
        (EVERYWHERE, True, TlsFiles(certificate="c", client_ca="ca"), ["certificate of ca is CN"]),
        (EVERYWHERE, False, TlsFiles(), ["Only the cluster's own authentication", "unencrypted"]),
        (
            *(EVERYWHERE, False, TlsFiles(certificate="c", client_ca="ca")),
            ["whoever has a certificate of ca reaches the cluster"],
        ),
    ],
)
def test_what_stands_behind_a_listener_is_told_as_it_is(
    listen: str, is_lent: bool, tls: TlsFiles, told: list[str]
) -> None:
    access = Access("b:1", Security(OPERATOR if is_lent else None))
    lends = Lend.EVERYBODY if is_lent else Lend.NOBODY
    said = exposure(TapSpec(access=access, listen=listen, tls=tls, lends=lends))
    assert bool(said) is bool(told)
    for words in told:
        assert words in said
    assert ("authentication stands behind it" in said) is (bool(said) and not is_lent)
    assert ("unencrypted" in said) is (bool(said) and not tls.certificate)
