"""`ssl.cipher.suites`: Java's names of suites are IANA's; OpenSSL has its own up to TLS 1.2."""

import re
import ssl
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from kipctl.errors import UsageError

_KEYS = {
    "RSA": "",
    **{name: f"{name.replace('_', '-')}-" for name in ("DHE_RSA", "DHE_DSS")},
    **{name: f"{name.replace('_', '-')}-" for name in ("ECDHE_RSA", "ECDHE_ECDSA")},
}
"""Key exchanges of IANA's names in OpenSSL's."""
_SUITE = re.compile(
    r"(?:TLS|SSL)_(?P<keys>[A-Z_]+)_WITH_"
    r"(?P<cipher>(?P<name>AES|CAMELLIA)_(?P<bits>\d+)_(?P<mode>GCM|CBC|CCM_8|CCM)"
    r"|CHACHA20_POLY1305|3DES_EDE_CBC)"
    r"(?:_(?P<hash>SHA\d*))?"
)
_OF_TLS_1_3 = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Those that OpenSSL offers; Python 3.11 has nothing to choose among them with."""
_NO_SUITE = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
"""Java lists it among the suites; OpenSSL always says it."""


class CipherSuites(NamedTuple):
    """What of `ssl.cipher.suites` can be done.

    `openssl` are the suites of TLS 1.2, in OpenSSL's names; `has_1_3` says whether one of TLS 1.3
    is among them. `warnings` are sentences on what cannot be done.
    """

    openssl: tuple[str, ...]
    has_1_3: bool
    warnings: tuple[str, ...]


def choose_suites(suites: Sequence[str]) -> CipherSuites:
    """Raises UsageError for what is no name of Java's, and if none of them can be spoken."""
    if wrong := [name for name in suites if not name.startswith(("TLS_", "SSL_"))]:
        raise UsageError(
            f"{wrong[0]} of ssl.cipher.suites is no name of Java's.",
            "They are IANA's, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.",
        )
    wanted = [name for name in suites if name != _NO_SUITE]
    of_1_3 = [name for name in wanted if name in _OF_TLS_1_3]
    known = {name: openssl_name(name) for name in wanted if name not in of_1_3}
    spoken = {name: openssl for name, openssl in known.items() if openssl in _supported()}
    if wanted and not (of_1_3 or spoken):
        raise UsageError(
            f"kipctl speaks none of ssl.cipher.suites={','.join(suites)}.",
            "Leave it out, or add one that OpenSSL has.",
        )
    warnings = []
    if lost := [name for name in known if name not in spoken]:
        warnings.append(f"Of ssl.cipher.suites kipctl does not speak {', '.join(lost)}.")
    if of_1_3 and len(set(of_1_3)) < len(_OF_TLS_1_3):
        warnings.append(
            "Of ssl.cipher.suites kipctl cannot choose among those of TLS 1.3: all are offered"
            f" ({', '.join(_OF_TLS_1_3)})."
        )
    return CipherSuites(tuple(filter(None, spoken.values())), bool(of_1_3), tuple(warnings))


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2 or before; None where there is none by these rules."""
    match = _SUITE.fullmatch(suite)
    if not match or match["keys"] not in _KEYS:
        return None
    before = _KEYS[match["keys"]]
    if match["cipher"] == "CHACHA20_POLY1305":
        return f"{before}CHACHA20-POLY1305"
    if match["cipher"] == "3DES_EDE_CBC":
        return f"{before}DES-CBC3-{match['hash']}"
    cipher = f"{match['name']}{match['bits']}"
    match match["mode"]:
        case "GCM":
            return f"{before}{cipher}-GCM-{match['hash']}"
        case "CBC":
            return f"{before}{cipher}-{match['hash']}"
    return f"{before}{cipher}-{match['mode'].replace('_', '')}"


@cache
def _supported() -> frozenset[str]:
    """The suites that this machine's OpenSSL takes at its level of security, by its own names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL")
    return frozenset(cipher["name"] for cipher in context.get_ciphers())
