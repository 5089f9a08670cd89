"""The users of a secured lab that are in the cluster's metadata: SCRAM credentials, and ACLs."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from kipctl import java_properties
from kipctl.errors import RefusedError, TimedOutError
from kipctl.lab.security import (
    READER,
    SCRAM_MECHANISMS,
    SCRAM_SHA_512,
    AccessControl,
    User,
    client_name,
)
from kipctl.transport.access import access_of

_TIMEOUT_S = 30.0
_TRY_S = 5.0
_POLL_S = 0.05
_SCRAM_ITERATIONS = 4096
_OF_READER = {
    # Of the cluster itself, which librdkafka names so.
    (ResourceType.BROKER, "kafka-cluster"): ("DESCRIBE", "DESCRIBE_CONFIGS"),
    (ResourceType.TOPIC, "*"): ("DESCRIBE", "DESCRIBE_CONFIGS", "READ"),
    (ResourceType.GROUP, "*"): ("DESCRIBE", "DESCRIBE_CONFIGS"),
}


def register_users(bootstrap_server: str, access: AccessControl) -> None:
    """Make the users' SCRAM credentials, and the ACLs of reader, as `access` has them.

    `bootstrap_server` are listeners that need no credentials. Raises RefusedError.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})
    if access.acl:
        _done(admin.create_acls(_acls_of_reader(), request_timeout=_TIMEOUT_S))
    if access.security.has_sasl:
        for mechanism in SCRAM_MECHANISMS:  # a request may alter a user once
            credentials: list[UserScramCredentialAlteration] = [
                _scram(user, mechanism) for user in access.users
            ]
            _done(admin.alter_user_scram_credentials(credentials, request_timeout=_TIMEOUT_S))


def wait_until_known(
    bootstrap_server: str,
    access: AccessControl,
    folder: Path,
    brokers: Sequence[int],
    timeout_s: float,
) -> None:
    """Wait until reader may read the configuration of each broker, over the clients' listener.

    That takes the credential that was registered last, and an ACL: then the broker knows them all.
    Raises TimedOutError after `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    reader = client_name(READER, SCRAM_SHA_512) if access.security.has_sasl else READER
    given = access_of(bootstrap_server, java_properties.read(folder / f"{reader}.properties"))
    admin = AdminClient(
        {
            **given.librdkafka(),
            "log_level": 0,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
    )
    for broker in brokers:
        asked = ConfigResource(ResourceType.BROKER, str(broker))
        while True:
            try:
                admin.describe_configs([asked], request_timeout=_TRY_S)[asked].result()
                break
            except KafkaException as refused:
                if time.monotonic() > deadline:
                    raise TimedOutError(
                        f"Broker {broker} does not let {READER} in after {timeout_s:g} s: "
                        f"{_error_text(refused)}."
                    ) from None
            time.sleep(_POLL_S)


def _scram(user: User, mechanism: str) -> UserScramCredentialUpsertion:
    info = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], _SCRAM_ITERATIONS)
    return UserScramCredentialUpsertion(user.name, info, user.password.encode())


def _acls_of_reader() -> list[AclBinding]:
    return [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{READER}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for (kind, name), operations in _OF_READER.items()
        for operation in operations
    ]


def _done(changes: Mapping[Any, "Future[Any]"]) -> None:
    for change in changes.values():
        try:
            change.result()
        except KafkaException as refused:
            raise RefusedError(
                f"The lab's brokers refuse to register its users: {_error_text(refused)}."
            ) from None


def _error_text(refused: KafkaException) -> str:
    error: KafkaError = refused.args[0]
    return str(error.str()).removesuffix(".")
