"""How clients of a lab are to connect and who they may be: in the words of brokers and of clients.

A secured lab has a listener for clients, CLIENTS, and beside it a plaintext one, INTERNAL, for its
brokers among themselves and for `kipctl lab`.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kipctl.security.kerberos import GSSAPI, KRB5_MODULE
from kipctl.security.sasl import OAUTHBEARER, PLAIN

SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""Of every lab with SASL; one with a KDC has GSSAPI, too."""
SCRAM_MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512)
ADMIN, ALICE, READER = "admin", "alice", "reader"
CERTIFIED_HOSTS = ("127.0.0.1", "::1", "localhost")

CLIENTS_FOLDER = "clients"
"""In the lab's folder, with all that its clients need."""
CA, TRUSTSTORE = "ca.pem", "truststore.p12"
BROKER_KEYSTORE = "keystore.pem"
"""In each broker's own folder."""
KERBEROS_FOLDER, BROKER_KEYTAB, KRB5_CONF = "kerberos", "kafka.keytab", "krb5.conf"
"""The KDC's folder with the brokers' key; the configuration is beside the clients' files."""
REALM, _SERVICE = "KIPCTL.LAB", "kafka"

_MODULES = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    PLAIN: f"{_MODULES}.plain.PlainLoginModule",
    SCRAM_SHA_256: f"{_MODULES}.scram.ScramLoginModule",
    SCRAM_SHA_512: f"{_MODULES}.scram.ScramLoginModule",
    OAUTHBEARER: f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
    GSSAPI: KRB5_MODULE,
}


class Security(StrEnum):
    """The security.protocol of the listener for clients."""

    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"

    @property
    def protocol(self) -> str:
        """As Kafka writes it."""
        return self.value.upper()

    @property
    def is_secured(self) -> bool:
        """Whether clients have to show who they are."""
        return self is not Security.PLAINTEXT

    @property
    def has_tls(self) -> bool:
        return self in (Security.SSL, Security.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (Security.SASL_PLAINTEXT, Security.SASL_SSL)

    @property
    def default_client(self) -> str | None:
        """The name of the client file that can do everything; None where none is needed."""
        if not self.is_secured:
            return None
        return client_name(ADMIN, SCRAM_SHA_512) if self.has_sasl else ADMIN


@dataclass(frozen=True, slots=True)
class User:
    """Someone whom brokers know, by the same password with every mechanism that has passwords."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AccessControl:
    """How a lab's brokers let clients in; `users` is empty where nobody is asked who he is.

    `broker_principal` is who they are to the lab's KDC; "" where there is none.
    With `acl` admin may do everything, reader may read and describe, and others nothing.
    """

    security: Security = Security.PLAINTEXT
    acl: bool = False
    users: tuple[User, ...] = ()
    broker_principal: str = ""

    @classmethod
    def new(cls, security: Security, acl: bool, kerberos_host: str = "") -> "AccessControl":
        """With users whose passwords nobody has had before.

        With Kerberos if a host is given: what tickets for the brokers call it.
        """
        if not security.is_secured:
            return OPEN
        names = (ADMIN, ALICE, READER)
        users = tuple(User(name, secrets.token_urlsafe(18)) for name in names)
        principal = f"{_SERVICE}/{kerberos_host}@{REALM}" if kerberos_host else ""
        return cls(security, acl, users, principal)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Of the listener for clients."""
        if not self.security.has_sasl:
            return ()
        return (*MECHANISMS, GSSAPI) if self.broker_principal else MECHANISMS

    def user(self, name: str) -> User:
        return next(user for user in self.users if user.name == name)


OPEN = AccessControl()
"""To everybody, as ANONYMOUS."""


def client_name(user: str, mechanism: str) -> str:
    """What the client file for SASL is called: alice-scram-sha-512."""
    return f"{user}-{mechanism.lower()}"


def authorizer_properties(access: AccessControl) -> dict[str, str]:
    """For brokers and controllers alike.

    ANONYMOUS are the nodes themselves, on their plaintext listeners; a client on the secured one
    always has a name.
    """
    if not access.acl:
        return {}
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    }


def listener_properties(access: AccessControl, folder: Path) -> dict[str, str]:
    """For the broker of that folder: what its listener for clients shows them and asks of them."""
    properties: dict[str, str] = {}
    if access.security.has_tls:
        properties |= _pem_keystore(folder / BROKER_KEYSTORE)
    if access.security is Security.SSL:
        properties |= _pem_truststore(folder.parent / CLIENTS_FOLDER / CA)
        properties["ssl.client.auth"] = "required"
        properties["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
    if access.security.has_sasl:
        properties["sasl.enabled.mechanisms"] = ",".join(access.mechanisms)
        passwords = {f"user_{user.name}": user.password for user in access.users}
        keytab = folder.parent / KERBEROS_FOLDER / BROKER_KEYTAB
        for mechanism in access.mechanisms:
            # SCRAM's are in the cluster's metadata; the default validator of OAUTHBEARER, meant for
            # development, believes each unsigned token.
            options = passwords if mechanism == PLAIN else {}
            if mechanism == GSSAPI:
                options = _by_keytab(keytab, access.broker_principal)
                properties["sasl.kerberos.service.name"] = _SERVICE
            key = f"listener.name.clients.{mechanism.lower()}.sasl.jaas.config"
            properties[key] = _jaas(mechanism, options)
    return properties


def client_properties(
    access: AccessControl, user: User, folder: Path, store_password: str
) -> dict[str, dict[str, str]]:
    """What is in each of the user's files in `folder`, by name, as Java's clients take it."""
    security = access.security
    protocol = {"security.protocol": security.protocol}
    pem = _pem_truststore(folder / CA) if security.has_tls else {}
    pkcs12 = _pkcs12_store("truststore", folder / TRUSTSTORE, store_password)
    if security is Security.SSL:
        keystore = _pkcs12_store("keystore", folder / f"{user.name}.p12", store_password)
        return {
            user.name: protocol | pem | _pem_keystore(folder / f"{user.name}.pem"),
            f"{user.name}-pkcs12": protocol | pkcs12 | keystore,
        }
    if not security.has_sasl:
        return {}
    files = {
        client_name(user.name, mechanism): protocol | pem | _sasl(mechanism, user, folder)
        for mechanism in access.mechanisms
    }
    if security.has_tls:
        files[f"{user.name}-pkcs12"] = protocol | pkcs12 | _sasl(SCRAM_SHA_512, user, folder)
    return files


def token_file(folder: Path, user: str) -> Path:
    return folder / f"{user}.jwt"


def keytab_of(folder: Path, user: str) -> Path:
    return folder / f"{user}.keytab"


def _sasl(mechanism: str, user: User, folder: Path) -> dict[str, str]:
    properties = {"sasl.mechanism": mechanism}
    if mechanism == GSSAPI:
        options = _by_keytab(keytab_of(folder, user.name), f"{user.name}@{REALM}")
        return properties | {
            "sasl.kerberos.service.name": _SERVICE,
            "sasl.jaas.config": _jaas(mechanism, options),
        }
    if mechanism != OAUTHBEARER:
        options = {"username": user.name, "password": user.password}
        return properties | {"sasl.jaas.config": _jaas(mechanism, options)}
    # Java's client makes the unsigned token by itself, out of the option, and reads none from a
    # file; the file is for other clients.
    options = {"unsecuredLoginStringClaim_sub": user.name}
    return properties | {
        "sasl.jaas.config": _jaas(mechanism, options),
        "sasl.oauthbearer.token.endpoint.url": token_file(folder, user.name).as_uri(),
    }


def _by_keytab(keytab: Path, principal: str) -> dict[str, str]:
    chosen = {"useKeyTab": "true", "storeKey": "true"}
    return chosen | {"keyTab": str(keytab), "principal": principal}


def _jaas(mechanism: str, options: Mapping[str, str]) -> str:
    given = "".join(f' {key}="{value}"' for key, value in options.items())
    return f"{_LOGIN_MODULES[mechanism]} required{given};"


def _pem_keystore(path: Path) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}


def _pem_truststore(path: Path) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}


def _pkcs12_store(store: str, path: Path, password: str) -> dict[str, str]:
    return {
        f"ssl.{store}.type": "PKCS12",
        f"ssl.{store}.location": str(path),
        f"ssl.{store}.password": password,
    }
