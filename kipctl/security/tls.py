"""What a TLS connection is made with: whom the client trusts, and what it shows of itself."""

import os
import re
import ssl
from dataclasses import dataclass, field
from functools import lru_cache

from kipctl.errors import UsageError

DEFAULT_VERSIONS = ("TLSv1.2", "TLSv1.3")
"""Kafka's own `ssl.enabled.protocols`."""


@dataclass(frozen=True, slots=True)
class Tls:
    """All in PEM, so that it is whole wherever it is sent; nothing of it is shown.

    `authorities` are the certificates that are trusted ("" for those of the system). `chain` and
    `key` are the client's own ("" for none). Without `checks_name` a broker's certificate may be of
    any host (`ssl.endpoint.identification.algorithm` is empty). `versions` are
    `ssl.enabled.protocols`; `ciphers` are the suites of TLS 1.2 in OpenSSL's names, none for its
    own choice.
    """

    authorities: str = field(default="", repr=False)
    chain: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    checks_name: bool = True
    versions: tuple[str, ...] = DEFAULT_VERSIONS
    ciphers: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """Of the client's own certificate, as brokers name it unless they map names."""
        from cryptography import x509

        return x509.load_pem_x509_certificate(self.chain.encode()).subject.rfc4514_string()

    def context(self) -> ssl.SSLContext:
        """The context of a client; one for all its connections.

        Raises UsageError for what cannot be used.
        """
        return _context(self)


_CLOSED = (ssl.SSLZeroReturnError, ssl.SSLEOFError, ConnectionResetError, BrokenPipeError)


def failure(error: OSError) -> str:
    """What went wrong between TLS and a broker, in a sentence's end; other errors as they are."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error)
    if isinstance(error, _CLOSED):
        return "it closed the connection during the TLS handshake, as a listener without TLS does"
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error) or type(error).__name__
    reason = error.reason or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "it does not answer in TLS: the listener may be one without"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return "it asks for a client's certificate that it trusts (ssl.keystore.*)"
    if "ALERT_HANDSHAKE_FAILURE" in reason:
        return (
            "it refuses the TLS handshake: it may ask for a client's certificate (ssl.keystore.*)"
        )
    words = re.sub(r"^(SSLV3_|TLSV1_|TLSV13_|SSLV13_)?(ALERT_)?", "", reason)
    return f"TLS failed ({words.replace('_', ' ').lower()})"


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    """Why its certificate is not trusted."""
    message = error.verify_message.rstrip(".")
    match error.verify_code:
        case 10:
            return "its certificate has expired"
        case 9:
            return "its certificate is not valid yet"
        case 18 | 19 | 20 | 21:
            return f"its certificate is of an authority that is not trusted ({message})"
        case 62 | 64:
            return f"its certificate is of another name ({message})"
    return f"its certificate is not trusted ({message})"


_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@lru_cache(maxsize=8)
def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.checks_name
    versions = sorted(_VERSIONS[name] for name in tls.versions if name in _VERSIONS)
    if not versions:
        raise UsageError(
            f"ssl.enabled.protocols={','.join(tls.versions)} has none that kipctl speaks.",
            f"It speaks {' and '.join(_VERSIONS)}.",
        )
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if tls.ciphers:
        context.set_ciphers(":".join(tls.ciphers))
    # As in Java, whatever is in a truststore is trusted: also an authority in between, or a broker.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        if tls.authorities:
            context.load_verify_locations(cadata=tls.authorities)
        else:
            context.load_default_certs()
    except (ssl.SSLError, ValueError, TypeError):  # the last for what is not ASCII
        raise UsageError("A certificate in ssl.truststore.* is damaged.") from None
    try:
        if tls.chain:
            _load_chain(context, tls)
    except (ssl.SSLError, ValueError):
        if "ENCRYPTED" in tls.key:
            raise UsageError("ssl.key.password is not that of the key in ssl.keystore.*.") from None
        raise UsageError(
            "The key in ssl.keystore.* does not fit its certificate, or is damaged.",
            "The client's own certificate has to be the first of its chain.",
        ) from None
    return context


def _load_chain(context: ssl.SSLContext, tls: Tls) -> None:
    """OpenSSL reads a key from a file only: here it is one that no other process can find."""
    descriptor = os.memfd_create("kipctl", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "w", encoding="ascii", closefd=False) as file:
            file.write(f"{tls.key}\n{tls.chain}")
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(
            f"/proc/self/fd/{descriptor}", password=lambda: tls.key_password or " "
        )
    finally:
        os.close(descriptor)
