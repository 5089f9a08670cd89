"""From Java's properties to how a connection is made: the one place that reads them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kipctl.errors import UsageError
from kipctl.security import stores
from kipctl.security.sasl import MECHANISMS, OAUTHBEARER, Sasl
from kipctl.security.tls import Tls
from kipctl.security.tokens import ClientCredentials, FileToken, TokenSource, UnsignedToken

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PREFIXES = ("ssl.", "sasl.", "security.")
_READ = frozenset(
    {
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
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
_ESCAPES = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_CLAIMS = {"unsecuredLoginStringClaim_": str, "unsecuredLoginNumberClaim_": float}
_NOT_SPOKEN = {
    "GSSAPI": "Kerberos",
    "AWS_MSK_IAM": "IAM of Amazon MSK",
}


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
    def principal(self) -> str:
        """Who the client is to Kafka's ACLs, as far as it can know: `User:alice`."""
        if self.sasl:
            return f"User:{self.sasl.subject}"
        return f"User:{self.tls.subject}" if self.tls and self.tls.chain else "User:ANONYMOUS"


def is_about_security(name: str) -> bool:
    """Whether a property says how to connect safely, rather than what a client does then."""
    return name.startswith(_PREFIXES)


def over_tls(properties: Mapping[str, str], authorities: str = "") -> dict[str, str]:
    """The same with TLS, whatever they say of it; a login stays.

    `authorities` is a file whose certificates are trusted in place of theirs ("" for theirs).
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol in PROTOCOLS:  # any other is refused as it stands
        protocol = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
    kept = {
        name: text
        for name, text in properties.items()
        if not (authorities and name.startswith("ssl.truststore."))
    }
    trusted = {"ssl.truststore.location": authorities} if authorities else {}
    return kept | trusted | {"security.protocol": protocol}


def without_effect(properties: Mapping[str, str]) -> list[str]:
    """Those about security that only Java's clients know, or nobody does."""
    return sorted(name for name in properties if is_about_security(name) and name not in _READ)


def maybe_meant(name: str) -> str:
    """One that has no effect, with the one that it may be a misspelling of."""
    near = [] if name in _OF_JAVA_ALONE else get_close_matches(name, _READ, n=1, cutoff=0.92)
    return f"{name} ({near[0]}?)" if near else name


def idle(properties: Mapping[str, str]) -> list[str]:
    """Those about TLS or a login where the protocol has none."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    without = [
        *(() if protocol.endswith("SSL") else ("ssl.",)),
        *(() if protocol.startswith("SASL") else ("sasl.",)),
    ]
    return sorted(name for name in properties if name.startswith(tuple(without)))


def security_of(properties: Mapping[str, str]) -> Security:
    """What a client's properties ask for, under the names of Java's clients.

    Raises UsageError for what is wrong, cannot be read, or is not spoken.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise UsageError(
            f"security.protocol={protocol} is none of Kafka's.",
            f"There are {', '.join(PROTOCOLS)}.",
        )
    return Security(
        tls_of(properties) if protocol.endswith("SSL") else None,
        _sasl_of(properties) if protocol.startswith("SASL") else None,
    )


def tls_of(properties: Mapping[str, str]) -> Tls:
    """What `ssl.*` says. Raises UsageError."""
    chain, key = _identity_of(properties)
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    versions = properties.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
    tls = Tls(
        authorities=_authorities_of(properties),
        chain=chain,
        key=key,
        key_password=properties.get("ssl.key.password", ""),
        checks_name=bool(algorithm.strip()),
        versions=tuple(name.strip() for name in versions.split(",") if name.strip()),
    )
    tls.context()  # what cannot be used is said before anything begins
    return tls


def _authorities_of(properties: Mapping[str, str]) -> str:
    if inline := properties.get("ssl.truststore.certificates"):
        return stores.certificates(inline, "ssl.truststore.certificates")
    if location := properties.get("ssl.truststore.location"):
        return stores.authorities(Path(location), properties.get("ssl.truststore.password", ""))
    return ""


def _identity_of(properties: Mapping[str, str]) -> stores.Identity:
    if inline := properties.get("ssl.keystore.key"):
        chain = properties.get("ssl.keystore.certificate.chain", "")
        return stores.Identity(
            stores.certificates(chain, "ssl.keystore.certificate.chain"),
            stores.private_key(inline, "ssl.keystore.key"),
        )
    if location := properties.get("ssl.keystore.location"):
        return stores.identity(Path(location), properties.get("ssl.keystore.password", ""))
    return stores.Identity("", "")


def _sasl_of(properties: Mapping[str, str]) -> Sasl:
    mechanism = properties.get("sasl.mechanism", "GSSAPI")  # Kafka's own default
    if mechanism not in MECHANISMS:
        what = f" ({_NOT_SPOKEN[mechanism]})" if mechanism in _NOT_SPOKEN else ""
        raise UsageError(
            f"sasl.mechanism={mechanism}{what} is not spoken by kipctl.",
            f"It speaks {', '.join(MECHANISMS)}: use a listener that takes one of them.",
        )
    options = jaas_options(properties.get("sasl.jaas.config", ""))
    if mechanism == OAUTHBEARER:
        extensions = tuple(
            (name.removeprefix("extension_"), value)
            for name, value in options.items()
            if name.startswith("extension_")
        )
        return Sasl(mechanism, token=_token_source(properties, options), extensions=extensions)
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise UsageError(
            f"sasl.jaas.config has no {' and no '.join(missing)}.",
            'As in Java: org.apache.kafka...LoginModule required username="..." password="...";',
        )
    return Sasl(mechanism, options["username"], options["password"])


def jaas_options(text: str) -> dict[str, str]:
    """The options of a login module, from Java's `sasl.jaas.config`.

    Java reads it with its `StreamTokenizer`: either kind of quotes, with the escapes of C.
    """
    found = re.findall(
        r"""([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""",
        text,
        re.DOTALL,
    )
    return {name: _unescaped(double or single) or bare for name, double, single, bare in found}


def _unescaped(quoted: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1][0] in "01234567":
            return chr(int(escape[1], 8))
        return _ESCAPES.get(escape[1], escape[1])

    return re.sub(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", character, quoted, flags=re.DOTALL)


def _token_source(properties: Mapping[str, str], options: Mapping[str, str]) -> TokenSource:
    url = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    if not url:
        claims = _claims(options)
        if "sub" in claims:
            return UnsignedToken(tuple(claims.items()))
        raise UsageError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url.",
            "It is a token endpoint's https://..., or file:///... of a token.",
        )
    if url.startswith("file:"):
        return FileToken(Path(unquote(urlsplit(url).path)))
    if not re.match(r"https?://[\w\[]", url):
        raise UsageError(
            f"sasl.oauthbearer.token.endpoint.url={url} is not spoken by kipctl.",
            "It is a token endpoint's https://..., or file:///... of a token.",
        )
    of_client = "sasl.oauthbearer.client.credentials.client."
    given = {
        "clientId": properties.get(of_client + "id") or options.get("clientId", ""),
        "clientSecret": properties.get(of_client + "secret") or options.get("clientSecret", ""),
    }
    if missing := [name for name, value in given.items() if not value]:
        raise UsageError(f"sasl.jaas.config has no {' and no '.join(missing)} for {url}.")
    scope = properties.get("sasl.oauthbearer.scope") or options.get("scope", "")
    of_endpoint = {name: value for name, value in options.items() if name.startswith("ssl.")}
    return ClientCredentials(
        url, given["clientId"], given["clientSecret"], scope, tls_of(of_endpoint)
    )


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
