"""The files that clients of a secured lab are given, and the certificates of its brokers."""

import secrets
from pathlib import Path

from kipctl import java_properties
from kipctl.lab.certificates import Authority
from kipctl.lab.security import (
    BROKER_KEYSTORE,
    CA,
    CERTIFIED_HOSTS,
    TRUSTSTORE,
    AccessControl,
    Security,
    client_properties,
    token_file,
)
from kipctl.security.tokens import UnsignedToken
from kipctl.state import write_private

_TOKEN_LIFETIME_S = 10 * 365 * 86400


def write_client_files(folder: Path, access: AccessControl, authority: Authority) -> None:
    """Make the folder with each user's files, and what those speak of: stores and tokens."""
    folder.mkdir(mode=0o700)
    store_password = secrets.token_urlsafe(18)
    if access.security.has_tls:
        write_private(folder / CA, authority.pem)
        write_private(folder / TRUSTSTORE, authority.truststore(store_password))
    for user in access.users:
        if access.security is Security.SSL:
            identity = authority.for_user(user.name)
            write_private(folder / f"{user.name}.pem", identity.pem)
            write_private(folder / f"{user.name}.p12", identity.keystore(store_password))
        if access.security.has_sasl:
            token = UnsignedToken((("sub", user.name),), _TOKEN_LIFETIME_S).current()
            write_private(token_file(folder, user.name), token.text.encode())
        files = client_properties(access, user, folder, store_password)
        for name, properties in files.items():
            text = java_properties.text(properties)
            write_private(folder / f"{name}.properties", text.encode("ascii"))


def write_broker_keystore(folder: Path, name: str, authority: Authority) -> None:
    """A broker's key and certificate, for every name that this machine has to itself."""
    write_private(folder / BROKER_KEYSTORE, authority.for_hosts(name, CERTIFIED_HOSTS).pem)
