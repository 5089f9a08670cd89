"""A lab's own Kerberos: MIT's KDC on loopback, all of it in the lab's folder.

Nothing of the machine's own Kerberos is read or changed: every program of it is started with the
lab's configuration.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kipctl import process
from kipctl.errors import RefusedError, UsageError
from kipctl.lab.locks import locked
from kipctl.lab.properties import HOST
from kipctl.lab.security import (
    BROKER_KEYTAB,
    CLIENTS_FOLDER,
    KERBEROS_FOLDER,
    KRB5_CONF,
    REALM,
    AccessControl,
    keytab_of,
)
from kipctl.state import write_private

_KDC, _DATABASE, _ADMINISTRATION = _PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_PATH = ":".join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/lib/mit/sbin"))
"""Who is not root has not always the folders on his path that they are in."""
_START_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 10.0

# Names are taken as they are: no DNS is asked, and no other realm.
_CLIENTS_CONFIGURATION = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = {host}:{port}
    }}
"""
_OWN_CONFIGURATION = """\
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = {host}:{port}
[realms]
    {realm} = {{
        database_name = {folder}/principals
        key_stash_file = {folder}/stash
        acl_file = {folder}/acl
    }}
[logging]
    default = FILE:{folder}/kdc.log
"""


def require_kdc() -> None:
    """Raise UsageError where this machine has none."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        raise UsageError(
            f"--kerberos needs {' and '.join(missing)}, which this machine has not.",
            "Install a KDC: krb5-kdc and krb5-admin-server (Debian, Ubuntu), krb5-server (Fedora).",
        )


@dataclass(frozen=True, slots=True)
class Kdc:
    """That of the lab whose folder this is."""

    lab: Path
    port: int

    def create(self, access: AccessControl) -> None:
        """Make its database, with the brokers' principal and the users', and a keytab for each.

        The folder with the clients' files is there already. Raises RefusedError.
        """
        self._folder.mkdir(mode=0o700)
        told = {"realm": REALM, "host": HOST, "port": self.port, "folder": self._folder}
        write_private(self.configuration, _CLIENTS_CONFIGURATION.format(**told).encode())
        write_private(self._folder / "kdc.conf", _OWN_CONFIGURATION.format(**told).encode())
        password = secrets.token_urlsafe(18)  # what it protects is in the same folder
        self._run(_DATABASE, ("create", "-s"), (password, password))
        keytabs = {access.broker_principal: self._folder / BROKER_KEYTAB}
        keytabs |= {
            user.name: keytab_of(self.lab / CLIENTS_FOLDER, user.name) for user in access.users
        }
        asked = [f'addprinc -randkey "{principal}"' for principal in keytabs]
        asked += [f'ktadd -k "{file}" "{principal}"' for principal, file in keytabs.items()]
        self._run(_ADMINISTRATION, (), asked)
        if missing := [file for file in keytabs.values() if not file.exists()]:
            raise RefusedError(f"{_ADMINISTRATION} has not made {missing[0]}.")

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers. Raises RefusedError."""
        with locked(self._folder):
            if self.is_running:
                return
            if self._answers():
                raise RefusedError(
                    f"Another program listens at {HOST}:{self.port}, where the lab's KDC is to.",
                    "End it, or make another lab.",
                )
            command = (*self._environment_command, self._program(_KDC), "-n", "-r", REALM)
            launch = process.Launch(command, self._folder, self._output)
            process.write_record(self._record, launch.process)
        launch.go()
        process.wait_until(lambda: self._answers() or not self.is_running, _START_TIMEOUT_S)
        if not (self._answers() and self.is_running):
            said = self._output.read_text(errors="replace").strip()
            raise RefusedError(
                f"The lab's KDC does not answer at {HOST}:{self.port}: {said[-300:]}",
                f"Its log: {self._folder}/kdc.log",
            )

    def kill(self) -> None:
        """End it, if it runs."""
        recorded = process.read_record(self._record)
        if recorded and process.send_signal(recorded, signal.SIGKILL):
            process.wait_for_exit(recorded, _END_TIMEOUT_S)

    @property
    def configuration(self) -> Path:
        """For clients: what KRB5_CONFIG is to name."""
        return self.lab / CLIENTS_FOLDER / KRB5_CONF

    @property
    def jvm_options(self) -> tuple[str, ...]:
        """Of brokers; what they have seen Java would keep in a file outside of the lab's folder."""
        return f"-Djava.security.krb5.conf={self.configuration}", "-Dsun.security.krb5.rcache=none"

    @property
    def is_running(self) -> bool:
        recorded = process.read_record(self._record)
        return recorded is not None and process.is_alive(recorded)

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1.0).close()
        except OSError:
            return False
        return True

    def _run(self, name: str, words: Iterable[str], lines: Iterable[str]) -> None:
        """A program that reads lines from its input."""
        ran = subprocess.run(
            [*self._environment_command, self._program(name), "-r", REALM, *words],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=60,
        )
        if ran.returncode:
            raise RefusedError(f"{name} failed: {ran.stderr.strip()[-300:]}")

    def _program(self, name: str) -> str:
        return shutil.which(name, path=_PATH) or name

    @property
    def _environment_command(self) -> tuple[str, ...]:
        own = self._folder / "kdc.conf"
        return "env", f"KRB5_CONFIG={self.configuration}", f"KRB5_KDC_PROFILE={own}"

    @property
    def _folder(self) -> Path:
        return self.lab / KERBEROS_FOLDER

    @property
    def _record(self) -> Path:
        return self._folder / "process"

    @property
    def _output(self) -> Path:
        return self._folder / "output.log"
