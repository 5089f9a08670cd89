"""Keystores and truststores, whatever their form, as PEM."""

import re
import ssl
import warnings
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from kipctl.errors import UsageError
from kipctl.security import jks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_JCEKS = bytes.fromhex("cececece")
_PEM = b"-----BEGIN "
_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)


class Identity(NamedTuple):
    """A client's certificates, its own first, and its key, which may be encrypted; in PEM."""

    chain: str
    key: str


def authorities(path: Path, password: str) -> str:
    """The certificates of a truststore. Raises UsageError."""
    content = _read(path, "ssl.truststore.location")
    if _PEM in content:
        return certificates(content.decode("latin-1"), f"{path}")
    if content.startswith(jks.MAGIC):
        store = _java_store(path, content, password, "ssl.truststore.password")
        trusted = (*store.trusted, *(chain[0] for _, chain in store.keys if chain))
        own, others = None, [*map(ssl.DER_cert_to_PEM_cert, trusted)]
    else:
        _, own, others = _pkcs12(path, content, password, "ssl.truststore.password")
    blocks = [*([own] if own else []), *others]
    if not blocks:
        raise UsageError(f"{path} holds no certificate.", "See ssl.truststore.location.")
    return "".join(blocks)


def identity(path: Path, password: str, key_password: str = "") -> Identity:
    """The key and certificates of a keystore; a key of JKS may have a password of its own.

    Raises UsageError.
    """
    content = _read(path, "ssl.keystore.location")
    if _PEM in content:
        text = content.decode("latin-1")
        return Identity(certificates(text, f"{path}"), private_key(text, f"{path}"))
    if content.startswith(jks.MAGIC):
        key, own, others = _first_key(path, content, password, key_password or password)
    else:
        key, own, others = _pkcs12(path, content, password, "ssl.keystore.password")
    if key is None or own is None:
        raise UsageError(f"{path} holds no key with its certificate.", "See ssl.keystore.location.")
    return Identity("".join([own, *others]), key)


def is_pem(path: str) -> bool:
    """Whether it is a file that can be read, and has PEM in it."""
    try:
        return _PEM in Path(path).read_bytes() if path else False
    except OSError:
        return False


def certificates(text: str, origin: str) -> str:
    """The certificates in a PEM text; `origin` says where it is from. Raises UsageError."""
    blocks = [block[0] for block in _blocks(text) if block[1].endswith("CERTIFICATE")]
    if not blocks:
        raise UsageError(f"{origin} holds no certificate in PEM.")
    return "\n".join(blocks) + "\n"


def private_key(text: str, origin: str) -> str:
    """The private key in a PEM text. Raises UsageError."""
    keys = [block[0] for block in _blocks(text) if block[1].endswith("PRIVATE KEY")]
    if not keys:
        raise UsageError(f"{origin} holds no private key in PEM.")
    return keys[0] + "\n"


def _blocks(text: str) -> list[re.Match[str]]:
    """PEM blocks. Of one that was written in one line (inline, KIP-651) the lines are made anew."""
    if "\n" not in text.strip():
        text = re.sub(
            r"(-----BEGIN [A-Z ]+-----)\s*(.*?)\s*(-----END [A-Z ]+-----)",
            lambda block: f"{block[1]}\n{block[2].replace(' ', chr(10))}\n{block[3]}\n",
            text,
        )
    return list(_BLOCK.finditer(text))


def _read(path: Path, name: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as wrong:
        raise UsageError(f"{name}={path} cannot be read: {wrong.strerror}.") from None
    if content.startswith(_JCEKS):
        target = path.with_suffix(".p12")
        raise UsageError(
            f"{path} is a JCEKS store, which only Java reads. Convert it:",
            f"keytool -importkeystore -srckeystore {quote(f'{path}')} -srcstoretype JCEKS"
            f" -destkeystore {quote(f'{target}')} -deststoretype PKCS12",
        )
    return content


def _java_store(path: Path, content: bytes, password: str, property_name: str) -> jks.JavaStore:
    try:
        return jks.java_store(content, password)
    except jks.WrongPasswordError:
        raise UsageError(f"{path}: its password is not {property_name}.") from None
    except ValueError as wrong:
        raise UsageError(f"{path} cannot be read: {wrong}.") from None


def _first_key(
    path: Path, content: bytes, password: str, key_password: str
) -> tuple[str | None, str | None, list[str]]:
    """As `_pkcs12` returns it, of a JKS store."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    store = _java_store(path, content, password, "ssl.keystore.password")
    if not store.keys:
        return None, None, []
    hidden, chain = store.keys[0]
    try:
        key = load_der_private_key(jks.revealed(hidden, key_password), None)
    except jks.WrongPasswordError:
        raise UsageError(
            f"{path}: the password of its key is neither ssl.key.password nor the store's."
        ) from None
    except (ValueError, UnsupportedAlgorithm) as wrong:
        raise UsageError(f"{path}: its key cannot be read: {wrong}.") from None
    certificates = [*map(ssl.DER_cert_to_PEM_cert, chain)]
    return _pkcs8(key), certificates[0] if certificates else None, certificates[1:]


def _pkcs12(
    path: Path, content: bytes, password: str, property_name: str
) -> tuple[str | None, str | None, list[str]]:
    """Key, its certificate, and other certificates; each in PEM."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    if "\0" in password:  # OpenSSL's bindings panic
        raise UsageError(
            f"{property_name} holds a NUL character, which no password of a store has."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is DER not in all places
            store = pkcs12.load_pkcs12(content, password.encode() if password else None)
    except (ValueError, UnsupportedAlgorithm) as wrong:
        if "password" in str(wrong).lower():
            raise UsageError(f"{path}: its password is not {property_name}.") from None
        raise UsageError(f"{path} is neither PEM nor PKCS12: {wrong}.") from None

    def pem(certificate: pkcs12.PKCS12Certificate) -> str:
        return certificate.certificate.public_bytes(Encoding.PEM).decode("ascii")

    key = None if store.key is None else _pkcs8(store.key)
    own = None if store.cert is None else pem(store.cert)
    return key, own, [pem(other) for other in store.additional_certs]


def _pkcs8(key: "PrivateKeyTypes") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
