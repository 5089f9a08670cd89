"""From Java's properties to how a connection is made: the one place that reads them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kipctl.errors import UsageError
from kipctl.protocol.address import is_loopback
from kipctl.security import ciphers, msk, stores
from kipctl.security.jaas import jaas_options
from kipctl.security.kerberos import GSSAPI, is_of_kerberos, kerberos_of
from kipctl.security.sasl import MECHANISMS, OAUTHBEARER, Sasl
from kipctl.security.tls import DEFAULT_VERSIONS, Tls
from kipctl.security.tokens import (
    ClientCredentials,
    FileToken,
    MskToken,
    TokenSource,
    UnsignedToken,
)
from kipctl.urls import without_login

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PREFIXES = ("ssl.", "sasl.", "security.")
_READ = frozenset(
    {
        "sasl.jaas.config",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_OF_JAVA_ALONE = frozenset({"sasl.client.callback.handler.class"})
"""Those that are near one that is read, and yet no misspelling of it."""
_BLANK = "".join(map(chr, range(33)))
"""What Java's clients cut off both ends of a value (`String.trim`)."""
_TLS_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
"""Java's names; it refuses any other."""
_ALGORITHMS = ("", "https", "ldaps")
_CLAIMS = {"unsecuredLoginStringClaim_": str, "unsecuredLoginNumberClaim_": float}


@dataclass(frozen=True, slots=True)
class Security:
    """How a connection is secured: by TLS, by a login, by both, or not at all."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`."""
        plain = "PLAINTEXT" if self.tls is None else "SSL"
        return f"SASL_{plain}" if self.sasl else plain

    @property
    def is_authenticated(self) -> bool:
        """Whether a broker learns who the client is: by a login, or by its certificate."""
        return bool(self.sasl or (self.tls and self.tls.chain))

    @property
    def is_iam(self) -> bool:
        """Whether AWS's IAM knows the client: there policies grant rights, and not ACLs."""
        return self.sasl is not None and isinstance(self.sasl.token, MskToken)

    @property
    def principal(self) -> str:
        """Who the client is to Kafka's ACLs, as far as it can know: `User:alice`."""
        if self.sasl:
            return f"User:{self.sasl.subject}"
        return f"User:{self.tls.subject}" if self.tls and self.tls.chain else "User:ANONYMOUS"


def is_about_security(name: str) -> bool:
    """Whether a property says how to connect safely, rather than what a client does then."""
    return name.startswith(_PREFIXES)


def with_tls(properties: Mapping[str, str], authorities: str = "") -> dict[str, str]:
    """The same with TLS, whatever they say of it; a login stays.

    `authorities` is a PEM file whose certificates are trusted in place of theirs ("" for theirs).
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol in PROTOCOLS:  # any other is refused as it stands
        protocol = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
    kept = {
        name: text
        for name, text in properties.items()
        if not (authorities and name.startswith("ssl.truststore."))
    }
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": authorities}
    return kept | (trusted if authorities else {}) | {"security.protocol": protocol}


def ignored_properties(properties: Mapping[str, str]) -> list[str]:
    """Those about security that only Java's clients know, or nobody does."""
    return sorted(name for name in properties if is_about_security(name) and name not in _READ)


def with_suggestion(name: str) -> str:
    """One that has no effect, with the one that it may be a misspelling of."""
    near = [] if name in _OF_JAVA_ALONE else get_close_matches(name, _READ, n=1, cutoff=0.92)
    return f"{name} ({near[0]}?)" if near else name


def unused_by_protocol(properties: Mapping[str, str]) -> list[str]:
    """Those about TLS or a login where the protocol has none."""
    protocol = properties.get("security.protocol", "PLAINTEXT").strip(_BLANK).upper()
    if protocol not in PROTOCOLS:
        return []  # it is refused
    without = [
        *(() if protocol.endswith("SSL") else ("ssl.",)),
        *(() if protocol.startswith("SASL") else ("sasl.",)),
    ]
    return sorted(name for name in properties if name.startswith(tuple(without)))


def refused_by_java(properties: Mapping[str, str]) -> list[str]:
    """Sentences on what kipctl takes, or takes otherwise, and Java's clients do not."""
    properties = _trimmed(properties)
    if not properties.get("security.protocol", "").upper().endswith("SSL"):
        return []
    inline = {"truststore": "certificates", "keystore": "key"}
    sentences = [
        f"Java's clients take PEM only with ssl.{store}.type=PEM."
        for store, inline_name in inline.items()
        if properties.get(f"ssl.{store}.type") != "PEM"
        and (
            properties.get(f"ssl.{store}.{inline_name}")
            or stores.is_pem(properties.get(f"ssl.{store}.location", ""))
        )
    ]
    return [*sentences, *ciphers.choose_suites(_listed(properties, "ssl.cipher.suites")).warnings]


def security_of(properties: Mapping[str, str], servers: str = "") -> Security:
    """What a client's properties ask for, under the names of Java's clients.

    By the names of `servers`, `host:port,host:port`, Amazon MSK's region is known.
    Raises UsageError for what is wrong, cannot be read, or is not spoken; also for what Java's
    clients would refuse, unless `refused_by_java` tells of it.
    """
    properties = _trimmed(properties)
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise UsageError(
            f"security.protocol={protocol} is none of Kafka's.",
            f"There are {', '.join(PROTOCOLS)}.",
        )
    return Security(
        tls_of(properties) if protocol.endswith("SSL") else None,
        _sasl_of(properties, servers) if protocol.startswith("SASL") else None,
    )


def _trimmed(properties: Mapping[str, str]) -> dict[str, str]:
    """As Java's clients read values (`ConfigDef.parseType`)."""
    return {name: text.strip(_BLANK) for name, text in properties.items()}


def _listed(properties: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A list's elements; none where it is empty."""
    return tuple(entry.strip() for entry in properties.get(name, "").split(",") if entry.strip())


def tls_of(properties: Mapping[str, str]) -> Tls:
    """What `ssl.*` says. Raises UsageError."""
    chain, key = _identity_of(properties)
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip()
    if algorithm.lower() not in _ALGORITHMS:
        raise UsageError(
            f"ssl.endpoint.identification.algorithm={algorithm} is none of Java's.",
            "Leave it out for https, or empty where the certificate may be of another name.",
        )
    suites = ciphers.choose_suites(_listed(properties, "ssl.cipher.suites"))
    tls = Tls(
        authorities=_authorities_of(properties),
        chain=chain,
        key=key,
        key_password=properties.get("ssl.key.password", ""),
        checks_name=bool(algorithm),
        versions=_versions_of(properties, suites),
        ciphers=suites.openssl,
    )
    tls.context()  # what cannot be used is said before anything begins
    return tls


def _versions_of(properties: Mapping[str, str], suites: ciphers.CipherSuites) -> tuple[str, ...]:
    """Of TLS, as far as it has one of these cipher suites."""
    enabled = _listed(properties, "ssl.enabled.protocols") or DEFAULT_VERSIONS
    if unknown := [name for name in enabled if name not in _TLS_VERSIONS]:
        raise UsageError(
            f"{unknown[0]} of ssl.enabled.protocols is none of Java's.",
            f"They are {', '.join(_TLS_VERSIONS)}.",
        )
    if not (suites.openssl or suites.has_1_3):
        return enabled
    without = {name for name in enabled if not suites.openssl and name != "TLSv1.3"}
    without |= set() if suites.has_1_3 else {"TLSv1.3"}
    left = tuple(name for name in enabled if name not in without)
    if not left:
        raise UsageError(
            f"No version of TLS in ssl.enabled.protocols={','.join(enabled)} has one of"
            " ssl.cipher.suites.",
            "Suites such as TLS_AES_128_GCM_SHA256 are TLS 1.3's, and those with _WITH_ are not.",
        )
    return left


def _authorities_of(properties: Mapping[str, str]) -> str:
    inline = properties.get("ssl.truststore.certificates")
    location = _store_of(properties, "truststore", "ssl.truststore.certificates")
    if inline:
        return stores.certificates(inline, "ssl.truststore.certificates")
    if location:
        return stores.authorities(location, properties.get("ssl.truststore.password", ""))
    return ""


def _identity_of(properties: Mapping[str, str]) -> stores.Identity:
    inline = properties.get("ssl.keystore.key")
    chain = properties.get("ssl.keystore.certificate.chain", "")
    location = _store_of(properties, "keystore", "ssl.keystore.key")
    if inline:
        return stores.Identity(
            stores.certificates(chain, "ssl.keystore.certificate.chain"),
            stores.private_key(inline, "ssl.keystore.key"),
        )
    if chain:
        raise UsageError("ssl.keystore.certificate.chain goes with ssl.keystore.key.", "Give both.")
    if location:
        passwords = (properties.get(f"ssl.{name}.password", "") for name in ("keystore", "key"))
        return stores.identity(location, *passwords)
    return stores.Identity("", "")


def _store_of(properties: Mapping[str, str], store: str, inline: str) -> Path | None:
    """The file of a store, if it is in one.

    Raises UsageError for what contradicts itself (Kafka's `DefaultSslEngineFactory`).
    """
    location, password = f"ssl.{store}.location", f"ssl.{store}.password"
    path, has_inline = properties.get(location, ""), bool(properties.get(inline))
    if has_inline and path:
        raise UsageError(f"{inline} and {location} name two stores.", "Give one.")
    if password in properties and not (has_inline or path):
        raise UsageError(f"{password} is for a store, and there is none.", f"Give {location}.")
    if password in properties and (has_inline or stores.is_pem(path)):
        raise UsageError(
            f"{password} cannot be given with PEM.",
            "Leave it out; the password of an encrypted key in PEM is ssl.key.password.",
        )
    return Path(path) if path else None


def _sasl_of(properties: Mapping[str, str], servers: str) -> Sasl:
    mechanism = properties.get("sasl.mechanism")
    if mechanism is None:
        if not is_of_kerberos(properties):
            raise UsageError(
                "sasl.mechanism is not given; Kafka's default is GSSAPI (Kerberos), of which"
                " nothing is said either.",
                f"kipctl speaks {', '.join(MECHANISMS)}: name the one of the brokers' listener.",
            )
        mechanism = GSSAPI
    if mechanism not in MECHANISMS:
        raise UsageError(
            f"sasl.mechanism={mechanism} is not spoken by kipctl.",
            f"It speaks {', '.join(MECHANISMS)}: use a listener that takes one of them.",
        )
    options = jaas_options(properties.get("sasl.jaas.config", ""))
    if mechanism == OAUTHBEARER:
        extensions = tuple(
            (name.removeprefix("extension_"), value)
            for name, value in options.items()
            if name.startswith("extension_")
        )
        token = _token_source(properties, options, servers)
        return Sasl(mechanism, token=token, extensions=extensions)
    if mechanism == GSSAPI:
        return Sasl(mechanism, kerberos=kerberos_of(properties, options))
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise UsageError(
            f"sasl.jaas.config has no {' and no '.join(missing)}.",
            'As in Java: org.apache.kafka...LoginModule required username="..." password="...";',
        )
    return Sasl(mechanism, options["username"], options["password"])


def _token_source(
    properties: Mapping[str, str], options: Mapping[str, str], servers: str
) -> TokenSource:
    if properties.get("sasl.login.callback.handler.class", "").startswith(msk.CLASSES):
        if not properties["security.protocol"].upper().endswith("SSL"):
            raise UsageError(
                "IAM's token would go unencrypted: whoever hears it on its way can log in with it"
                " to any cluster of MSK's in the region.",
                "Give security.protocol=SASL_SSL: brokers of MSK take IAM over TLS alone.",
            )
        return msk.msk_token(options, servers)
    url = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    if not url:
        claims = _claims(options)
        if "sub" in claims:
            return UnsignedToken(tuple(claims.items()))
        raise UsageError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url.",
            "It is a token endpoint's https://..., or file:///... of a token;"
            f" for IAM of Amazon MSK say sasl.mechanism={msk.MECHANISM}.",
        )
    if url.startswith("file:"):
        return FileToken(Path(unquote(urlsplit(url).path)))
    if not re.match(r"https?://[\w\[]", url):
        raise UsageError(
            f"sasl.oauthbearer.token.endpoint.url={without_login(url)} is not spoken by kipctl.",
            "It is a token endpoint's https://..., or file:///... of a token.",
        )
    if url.startswith("http:") and not is_loopback(_host_of(url)):
        raise UsageError(
            f"The token endpoint {without_login(url)} is spoken to without TLS: whoever hears the"
            " network gets the client's secret.",
            "Give its https://...; http:// is for one on this machine.",
        )
    of_client = "sasl.oauthbearer.client.credentials.client."
    given = {
        "clientId": properties.get(of_client + "id") or options.get("clientId", ""),
        "clientSecret": properties.get(of_client + "secret") or options.get("clientSecret", ""),
    }
    if missing := [name for name, value in given.items() if not value]:
        raise UsageError(
            f"sasl.jaas.config has no {' and no '.join(missing)} for {without_login(url)}."
        )
    scope = properties.get("sasl.oauthbearer.scope") or options.get("scope", "")
    of_endpoint = {name: value for name, value in options.items() if name.startswith("ssl.")}
    return ClientCredentials(
        url, given["clientId"], given["clientSecret"], scope, tls_of(of_endpoint)
    )


def _host_of(url: str) -> str:
    """Empty for what is no URL."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _claims(options: Mapping[str, str]) -> dict[str, str | float]:
    """What an unsigned token is to say."""
    try:
        return {
            name.removeprefix(prefix): kind(value)
            for name, value in options.items()
            for prefix, kind in _CLAIMS.items()
            if name.startswith(prefix)
        }
    except ValueError:
        raise UsageError("A claim of unsecuredLoginNumberClaim_... is not a number.") from None
