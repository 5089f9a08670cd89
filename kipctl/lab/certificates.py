"""A certification authority of one's own, and the certificates that it issues, in files.

For labs, and for tests: those need certificates that are expired, for another name, or of an
authority that nobody knows.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True)
class Validity:
    """From when until when, counted from now; what is negative is past."""

    since: timedelta = timedelta(hours=-1)
    until: timedelta = timedelta(days=3650)


EXPIRED = Validity(since=timedelta(days=-2), until=timedelta(days=-1))
_ALWAYS = Validity(since=timedelta(days=-3650), until=timedelta(days=3650))


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key, the certificate for it, and the authority's that issued that."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuer: x509.Certificate

    @property
    def pem(self) -> bytes:
        """The key (PKCS #8, not encrypted) and the chain, as one file holds them."""
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return key + b"".join(c.public_bytes(Encoding.PEM) for c in (self.certificate, self.issuer))

    def keystore(self, password: str) -> bytes:
        """The same in PKCS #12."""
        return pkcs12.serialize_key_and_certificates(
            None,
            self.key,
            self.certificate,
            [self.issuer],
            BestAvailableEncryption(password.encode()),
        )


class Authority:
    """A new authority, with a key that is nowhere but in memory."""

    def __init__(self, name: str = "kipctl lab CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(
            key_cert_sign=True,
            crl_sign=True,
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        subject = _common_name(name)
        self.certificate = (
            _builder(subject, subject, self._key, self._key, _ALWAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        """Its own certificate: what a client or a broker is told to trust."""
        return self.certificate.public_bytes(Encoding.PEM)

    def truststore(self, password: str) -> bytes:
        """The same in PKCS #12, marked as trusted, without which Java passes it over."""
        trusted = pkcs12.PKCS12Certificate(self.certificate, b"ca")
        return pkcs12.serialize_java_truststore(
            [trusted], BestAvailableEncryption(password.encode())
        )

    def for_hosts(
        self, name: str, hosts: Sequence[str], validity: Validity | None = None
    ) -> Identity:
        """For a server that is reached under these names and addresses."""
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, names, validity)

    def for_user(self, user: str, validity: Validity | None = None) -> Identity:
        """For a client that is to be known as this user, which is the CN."""
        return self._issue(user, ExtendedKeyUsageOID.CLIENT_AUTH, None, validity)

    def _issue(
        self,
        name: str,
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
        validity: Validity | None,
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(
                _common_name(name), self.certificate.subject, key, self._key, validity or Validity()
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return Identity(key, builder.sign(self._key, hashes.SHA256()), self.certificate)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    validity: Validity,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    public, of_issuer = key.public_key(), issuer_key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + validity.since)
        .not_valid_after(now + validity.until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(of_issuer), critical=False
        )
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
