"""The settings that librdkafka connects with, from those of Java's clients."""

import re
import time
from collections.abc import Callable
from typing import Any

from kipctl.errors import KipctlError, UsageError
from kipctl.security.kerberos import GSSAPI, Kerberos
from kipctl.security.sasl import OAUTHBEARER, Sasl
from kipctl.security.settings import Security
from kipctl.security.tls import DEFAULT_VERSIONS, Tls

_SAFE = re.compile(r"(?!-)[\w./@-]+", re.ASCII)
"""What a shell takes as one word that says nothing but itself, and `kinit` not as an option."""


def librdkafka_properties(security: Security) -> dict[str, Any]:
    """What to give a client of confluent-kafka; nothing for an unsecured cluster.

    The values are secrets, and one may be a function. Raises UsageError for what it has nothing
    for.
    """
    if security.tls is None and security.sasl is None:
        return {}
    return {
        "security.protocol": security.protocol,
        **(_of_tls(security.tls) if security.tls else {}),
        **(_of_sasl(security.sasl) if security.sasl else {}),
    }


def _of_tls(tls: Tls) -> dict[str, str]:
    if not set(DEFAULT_VERSIONS) <= set(tls.versions):
        raise UsageError(
            f"librdkafka cannot be held to {', '.join(tls.versions)}: it speaks"
            f" {' and '.join(DEFAULT_VERSIONS)} wherever a broker does.",
            "Give ssl.enabled.protocols and ssl.cipher.suites with both to try this client.",
        )
    given = {
        "ssl.ca.pem": tls.authorities,
        "ssl.certificate.pem": tls.chain,
        "ssl.key.pem": tls.key,
        "ssl.key.password": tls.key_password,
        "ssl.cipher.suites": ":".join(tls.ciphers),
    }
    name_check = {"ssl.endpoint.identification.algorithm": "https" if tls.checks_name else "none"}
    return {name: text for name, text in given.items() if text} | name_check


def _of_sasl(sasl: Sasl) -> dict[str, Any]:
    if sasl.mechanism == OAUTHBEARER:
        return {"sasl.mechanism": OAUTHBEARER, "oauth_cb": token_callback(sasl)}
    if sasl.kerberos:
        return {"sasl.mechanism": GSSAPI, **_of_kerberos(sasl.kerberos)}
    return {
        "sasl.mechanism": sasl.mechanism,
        "sasl.username": sasl.username,
        "sasl.password": sasl.password,
    }


def _of_kerberos(kerberos: Kerberos) -> dict[str, str]:
    from confluent_kafka import KafkaException, Producer, libversion

    try:
        Producer({"builtin.features": "sasl_gssapi", "log_level": 0})
    except KafkaException:
        raise UsageError(
            f"This librdkafka ({libversion()[0]}) has no GSSAPI: confluent-kafka's wheels are built"
            " without it.",
            "Build confluent-kafka against a librdkafka with libsasl2, or try Java's clients.",
        ) from None
    if kerberos.cache:
        raise UsageError(
            "librdkafka takes no ticketCache: its tickets are those of KRB5CCNAME.",
            f"Leave ticketCache out, and set KRB5CCNAME={kerberos.cache}.",
        )
    given = {
        "sasl.kerberos.service.name": kerberos.service,
        "sasl.kerberos.principal": kerberos.principal,
        "sasl.kerberos.keytab": str(kerberos.keytab or ""),
    }
    for name, text in given.items():
        if text and not _SAFE.fullmatch(text):
            raise UsageError(
                f"librdkafka would give {name}={text[:80]!a} to a shell, which starts kinit.",
                "Use a name of letters, digits, and _ . / @ - only, or try Java's clients.",
            )
    # Without a keytab the ticket is somebody else's to renew.
    kinit = {} if kerberos.keytab else {"sasl.kerberos.kinit.cmd": ""}
    return {name: text for name, text in given.items() if text} | kinit


def token_callback(sasl: Sasl) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    """What confluent-kafka calls for a token: its text, its end, a principal, its extensions."""

    def token(_: str) -> tuple[str, float, str, dict[str, str]]:
        assert sasl.token
        try:
            current = sasl.token.current()
        except KipctlError as error:
            raise RuntimeError(error.what) from error  # librdkafka asks again after 10 s
        ends = current.expires_s if current.expires_s is not None else time.time() + 300
        return current.text, ends, "", dict(sasl.extensions)

    return token
