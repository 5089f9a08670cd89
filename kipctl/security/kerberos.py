"""Kerberos: whose tickets a login has, and what goes wrong with them; by MIT's library, `gssapi`.

Its configuration is that of `KRB5_CONFIG`, or /etc/krb5.conf. What it has to ask a KDC for, it asks
when a login begins, and keeps: a ticket for a broker's host is good for hours.
"""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kipctl import extras
from kipctl.at_once import LateError, at_once
from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError

if TYPE_CHECKING:
    import gssapi

GSSAPI = "GSSAPI"
"""The mechanism's name."""
KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_KDC_TIMEOUT_S = 10.0
"""For all that is asked of KDCs for one login: with the library's own patience it is a minute."""
_KRB5 = -1765328384
"""The first error of `krb5.h`: those below are offsets from it (RFC 4120's numbers up to 127)."""
_KINIT = "Get a new one: kinit"
_CLOCKS = "Set the clocks of this machine, of the KDC and of the brokers right (NTP)."
_CONFIGURATION = "Check krb5.conf, which is the file of KRB5_CONFIG or /etc/krb5.conf."
_KEYTAB = "Check keyTab and principal in sasl.jaas.config: klist -k FILE shows what is in it."
_SERVICE = (
    "Check sasl.kerberos.service.name, and that the KDC knows the broker by the name that is"
    " connected to: its advertised.listeners, or that of --bootstrap-server."
)
_OLD_KEY = "The keytab has an old key: make it anew (ktadd)."
_REASONS: dict[int, tuple[type[KipctlError], str]] = {
    6: (RefusedError, "Check the principal in sasl.jaas.config, and its realm."),
    7: (RefusedError, _SERVICE),
    18: (RefusedError, "Ask who looks after the KDC: the principal is locked, or has expired."),
    23: (RefusedError, "Set a new password, or make the keytab anew (ktadd)."),
    24: (RefusedError, _OLD_KEY),
    31: (RefusedError, _OLD_KEY),
    32: (RefusedError, _KINIT),
    37: (RefusedError, _CLOCKS),
    141: (RefusedError, _KINIT),
    156: (UnreachableError, _CONFIGURATION),
    195: (RefusedError, _KINIT),
    220: (UnreachableError, _CONFIGURATION),
}
"""By error: how it ends, and what to do. The library's own sentence says what is wrong."""


_ticket_names: dict["Kerberos", str] = {}
"""Whose ticket the last login began with, where that is for the cache to say."""


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A service's name, and who asks for tickets for it.

    `principal` is "" for that of the cache. Its key is in `keytab`; without one `kinit` has put a
    ticket into `cache` (None for the one of KRB5CCNAME, or the machine's default).
    """

    service: str
    principal: str = ""
    keytab: Path | None = None
    cache: Path | None = None

    @property
    def subject(self) -> str:
        """Who it is to Kafka, by the rule DEFAULT of `sasl.kerberos.principal.to.local.rules`.

        Of a ticket, once a login has begun with it; "" before. Messages ask for it, which wait for
        nobody: the library would ask a KDC, where there is a client keytab (KRB5_CLIENT_KTNAME).
        """
        return re.split("[/@]", self.principal or _ticket_names.get(self, ""))[0]

    @property
    def if_refused(self) -> str:
        """What to do where a broker refuses this login."""
        return (
            "The broker's log says why: its keytab may have another key than the KDC, its clock be"
            " wrong, or its principal be of another host."
        )

    def begin(self, host: str) -> tuple["SecurityContext", bytes]:
        """A context with the service of a broker of this host, and what to tell that first.

        Takes 10 s at most. Raises KipctlError. From then on `subject` is known.
        """
        (begun,) = at_once(self._begin, [host], _KDC_TIMEOUT_S)
        if isinstance(begun, LateError):
            raise UnreachableError(
                f"No KDC has answered within {_KDC_TIMEOUT_S:g} s.", _CONFIGURATION
            )
        if isinstance(begun, KipctlError):
            raise begun
        return begun

    def _begin(self, host: str) -> tuple["SecurityContext", bytes]:
        import gssapi
        from gssapi import NameType, RequirementFlag

        service = f"{self.service}@{name_of(host)}"
        try:
            if self.keytab:
                self._check_keytab()
            credentials = self._credentials()
            context = gssapi.SecurityContext(
                name=gssapi.Name(service, NameType.hostbased_service),
                creds=credentials,
                mech=gssapi.MechType.kerberos,
                usage="initiate",
                # The broker is to prove itself too; RFC 4752 wants integrity for what comes then.
                flags=(RequirementFlag.mutual_authentication, RequirementFlag.integrity),
            )
            first = context.step() or b""
            if not self.principal:
                _ticket_names[self] = str(credentials.name)
        except gssapi.exceptions.GSSError as error:
            raise _failure(error) from None
        except UnicodeError:
            raise UsageError(
                f"Kerberos has no ticket for {service!a}: a name has to be a text.",
                "Check the broker's host, and sasl.jaas.config.",
            ) from None
        return SecurityContext(context, service), first

    def _credentials(self) -> "gssapi.Credentials":
        store = None
        if self.keytab:
            # Nobody else sees a cache in memory; the library fills it by the keytab when need be.
            cache = f"MEMORY:{self.principal} {self.keytab}"
            store = {"client_keytab": f"FILE:{self.keytab}", "ccache": cache}
        elif self.cache:
            store = {"ccache": f"FILE:{self.cache}"}
        return self._acquired("initiate", store)

    def _check_keytab(self) -> None:
        """Of a keytab that is of no use the library says that there is no cache."""
        import gssapi

        try:
            self._acquired("accept", {"keytab": f"FILE:{self.keytab}"})
        except gssapi.exceptions.MissingCredentialsError as error:
            raise UsageError(
                f"The keytab {self.keytab} is of no use: {_said(error)}.", _KEYTAB
            ) from None

    def _acquired(self, usage: str, store: dict[str, str] | None) -> "gssapi.Credentials":
        import gssapi

        kind = gssapi.NameType.kerberos_principal
        return gssapi.Credentials(
            usage=usage,
            name=gssapi.Name(self.principal, kind) if self.principal else None,
            mechs=[gssapi.MechType.kerberos],
            store=store,
        )


def name_of(host: str) -> str:
    """What a service's principal calls a host: as it is connected to, and an address by its name.

    So Kafka's clients in Java do (`SaslChannelBuilder`), and so the principals of brokers are made.
    """
    try:
        ip_address(host)
        return socket.gethostbyaddr(host)[0]
    except (ValueError, OSError):
        return host


def is_of_kerberos(properties: Mapping[str, str]) -> bool:
    """Whether a login is by Kerberos: its mechanism is GSSAPI, which is also Kafka's default."""
    mechanism = properties.get("sasl.mechanism", "").strip()
    has_signs = any(name.startswith("sasl.kerberos.") for name in properties)
    has_signs = has_signs or "Krb5LoginModule" in properties.get("sasl.jaas.config", "")
    return mechanism == GSSAPI or (not mechanism and has_signs)


def kerberos_of(properties: Mapping[str, str], options: Mapping[str, str]) -> Kerberos:
    """As Java's `Krb5LoginModule` takes the options (Kafka's `KerberosLogin` the service).

    Raises UsageError, also where the library is missing.
    """
    extras.require("gssapi", "GSSAPI (Kerberos)")
    if properties.get("sasl.jaas.config", "").lstrip().startswith("com.ibm."):
        raise UsageError(
            "sasl.jaas.config has IBM's login module, whose options kipctl does not read.",
            f"As OpenJDK has it: {KRB5_MODULE} required useKeyTab=true"
            ' keyTab="/path" principal="...";',
        )
    in_jaas, service = options.get("serviceName"), properties.get("sasl.kerberos.service.name")
    if in_jaas and service and in_jaas != service:
        raise UsageError(
            f"serviceName={in_jaas} in sasl.jaas.config is not that of sasl.kerberos.service.name.",
            "Give one of them.",
        )
    if not (service := in_jaas or service):
        raise UsageError(
            "GSSAPI needs sasl.kerberos.service.name.",
            "It is what the principals of the brokers begin with, mostly kafka.",
        )
    principal = options.get("principal", "")
    by_keytab, by_cache = (
        options.get(name, "").lower() == "true" for name in ("useKeyTab", "useTicketCache")
    )
    if by_keytab:
        if missing := [name for name in ("keyTab", "principal") if not options.get(name)]:
            raise UsageError(
                f"useKeyTab=true in sasl.jaas.config goes with {' and '.join(missing)}.",
                'As in keyTab="/path/of/the.keytab" principal="alice@EXAMPLE.COM"',
            )
        keytab = Path(options["keyTab"].removeprefix("FILE:")).expanduser().absolute()
        return Kerberos(service, principal, keytab)
    if not by_cache:
        raise UsageError(
            "sasl.jaas.config says neither useKeyTab=true nor useTicketCache=true.",
            f"For the ticket of kinit: {KRB5_MODULE} required useTicketCache=true;",
        )
    cache = options.get("ticketCache", "").removeprefix("FILE:")
    return Kerberos(service, principal, None, Path(cache).absolute() if cache else None)


class SecurityContext:
    """What a client and a broker agree on by their tokens. Each method raises KipctlError."""

    def __init__(self, context: "gssapi.SecurityContext", service: str) -> None:
        self._context, self._service = context, service

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes) -> bytes:
        """Take the broker's token; what to tell it then, which may be nothing."""
        return self._refusing(self._context.step, token) or b""

    def unwrapped(self, message: bytes) -> bytes:
        """What the broker says, and has signed."""
        return bytes(self._refusing(self._context.unwrap, message).message)

    def wrapped(self, message: bytes) -> bytes:
        """The same for what is said to it."""
        return bytes(self._refusing(self._context.wrap, message, False).message)

    def _refusing(self, call: Any, *arguments: Any) -> Any:
        """What GSSAPI makes of a broker's token; RefusedError for one that proves nothing."""
        import gssapi

        try:
            return call(*arguments)
        except gssapi.exceptions.GSSError as error:
            raise RefusedError(
                f"The broker does not prove that it is {self._service}: {_said(error)}.",
                "It may be another cluster's, or somebody in between.",
            ) from None


def _failure(error: "gssapi.exceptions.GSSError") -> KipctlError:
    import gssapi

    if isinstance(error, gssapi.exceptions.ExpiredCredentialsError):
        # What the library saw itself, before it asked the KDC, has no number of krb5's.
        return RefusedError("Kerberos gives no ticket: Ticket expired.", _KINIT)
    code = error.min_code - (1 << 32 if error.min_code >= 1 << 31 else 0) - _KRB5
    kind, next_step = _REASONS.get(code, (UsageError, _CONFIGURATION))
    return kind(f"Kerberos gives no ticket: {_said(error)}.", next_step)


def _said(error: "gssapi.exceptions.GSSError") -> str:
    """The mechanism's own sentence, or, where it has none, GSSAPI's at large."""
    for code, is_major in ((error.min_code, False), (error.maj_code, True)):
        sentence = str(error.get_all_statuses(code, is_major)[-1]).rstrip(".")
        if sentence not in ("Success", "Unknown error"):
            break
    return sentence
