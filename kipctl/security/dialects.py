"""Properties of a connection as people have them, as those of Java's clients.

They come under librdkafka's names, Spring's, Quarkus' and Kafka Connect's prefixes, as environment
variables, with Strimzi's OAuth or MSK's IAM in the JAAS line, or without quotes there. What is
plain is taken for what it means, and said; what is not is refused with the line to change. Sources:
librdkafka's CONFIGURATION.md, Spring Boot's `KafkaProperties`, Quarkus' Kafka guide, the READMEs of
strimzi-kafka-oauth and aws-msk-iam-auth, KIP-651 (PEM).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kipctl.errors import KipctlError, UsageError
from kipctl.security import msk
from kipctl.security.jaas import jaas_options, jaas_text, unquoted_options
from kipctl.security.kerberos import KRB5_MODULE, is_of_kerberos

_ABOUT_CONNECTIONS = re.compile(
    r"(ssl|sasl|security)\..+|bootstrap\.servers|metadata\.broker\.list"
    r"|enable\.ssl\.certificate\.verification"
)
_STREAM = re.compile(r"spring\.cloud\.stream\.kafka\.(?:streams\.)?binder\.(?:configuration\.)?")
_SPRING = re.compile(r"spring\.kafka\.(?:(?:producer|consumer|admin|streams)\.)?(.+)")
_PREFIX = re.compile(
    r"(?:mp\.messaging\.connector\.smallrye-kafka|mp\.messaging\.(?:incoming|outgoing)\.[^.]+"
    r"|(?:connect\.)?(?:(?:main|global|restore)\.)?(?:producer|consumer|admin)(?:\.override)?"
    r"|kafka(?:\.(?:client|cfg))?|connect)\.(.+)"
)
_UI = re.compile(r"kafka\.clusters\.\d+\.(?:properties\.)?(.+)")
_PROFILE = re.compile(r"%[\w,-]+\.")
_VARIABLE = re.compile(r"(?:export +)?((?:SPRING_)?(?:KAFKA|CONNECT)_[A-Z0-9_]+)")


def _squeezed(name: str) -> str:
    """Spring's names are the same with hyphens, without, in camel case, and as variables."""
    return re.sub("[.-]", "", name).lower()


_OF_SPRING = {
    _squeezed(name): name
    for name in (
        "bootstrap.servers",
        "security.protocol",
        "ssl.key.password",
        *(f"ssl.keystore.{suffix}" for suffix in ("certificate.chain", "key", "location")),
        *(f"ssl.truststore.{suffix}" for suffix in ("certificates", "location")),
        *(
            f"ssl.{store}.{suffix}"
            for store in ("keystore", "truststore")
            for suffix in ("password", "type")
        ),
    )
}
_OF_SPRING["brokers"] = "bootstrap.servers"  # of Spring Cloud Stream
_SPRING_JAAS = "spring.kafka.jaas."
_SAME_MEANING = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""librdkafka's names, and Java's."""
_LOGIN_HANDLER, _CLIENT_HANDLER = (
    f"sasl.{handler}.callback.handler.class" for handler in ("login", "client")
)
_OF_JAAS = {"oauth.client.id": "clientId", "oauth.client.secret": "clientSecret"}
_STRIMZI = "io.strimzi."
_JAVAS_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_OAUTHBEARER = "OAUTHBEARER"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    _OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_TEMPLATE = r"\{\{.*?\}\}|\$\{.*?\}|\$\(.*?\)|<[^<>]+>|\{[A-Z][A-Z_. -]+\}"
_IN_JAAS = re.compile(rf"""=\s*["']?\s*({_TEMPLATE})\s*["']?\s*(?=[;\s]|$)""")


class AsJavas(NamedTuple):
    """The properties under Java's names, and in words what was taken for what."""

    properties: dict[str, str]
    taken: tuple[str, ...]


def as_javas(given: Mapping[str, str]) -> AsJavas:
    """What these mean to Java's clients; those that say nothing of connections stay as they are.

    Raises UsageError for what was never filled in, what is switched off that should be on, and what
    says two things.
    """
    taken: list[str] = []
    properties = _of_frameworks(_plain(given, taken), taken)
    for name, text in properties.items():
        if _ABOUT_CONNECTIONS.fullmatch(name):
            _demand_filled_in(name, text)
    steps: tuple[_Step, ...] = (
        *(_verification, _renamed, _login, _kerberos, _authorities, _certificate, _oauth, _msk),
    )
    for step in steps:
        step(properties, taken)
    if "security.protocol" not in properties:
        _demand_known_names(properties)
    for store, inline in (("truststore", "certificates"), ("keystore", "key")):
        if properties.keys() - given.keys() >= {f"ssl.{store}.{inline}"}:
            properties.setdefault(f"ssl.{store}.type", "PEM")
    return AsJavas(properties, tuple(taken))


_Step = Callable[[dict[str, str], list[str]], None]
"""Changes the properties, and adds what was taken for what."""


def _demand_filled_in(name: str, text: str) -> None:
    match = (
        _IN_JAAS.search(text)
        if name == "sasl.jaas.config"
        else re.fullmatch(rf"\s*({_TEMPLATE})\s*", text)
    )
    if match:
        raise UsageError(
            f"{name} still has {match[1]}: a template that was not filled in.",
            "Write the value there; kipctl has no config providers.",
        )


# --- Other kinds of files ---

_OF_LOGINS = ("securityprotocol", "saslmechanism", "saslmechanisms", "sasljaasconfig")
_PROPERTIES = "kipctl reads Java's properties, one a line, as security.protocol=SASL_SSL"


def _plain(given: Mapping[str, str], taken: list[str]) -> dict[str, str]:
    """Without what editors and frameworks put before names. Raises UsageError for what is another
    kind of file, of which nothing is shown: its lines may be those of a key.
    """
    cut_off = re.compile(r"\s*-----BEGIN(?!.*-----END)", re.DOTALL)
    if any(name.startswith("-----") or cut_off.match(text) for name, text in given.items()):
        raise UsageError(
            "The properties file has a key or a certificate that goes over several lines.",
            r"End each of them with \n\ , or name a file of it, as in ssl.truststore.location.",
        )
    if any(name.endswith("LoginModule") for name in given):
        raise UsageError(
            "The properties file is a JAAS file.",
            "Write that login as sasl.jaas.config=MODULE required ...; beside security.protocol and"
            " sasl.mechanism.",
        )
    plain: dict[str, str] = {}
    for name, text in given.items():
        bare = _PROFILE.sub("", name.removeprefix("\ufeff"), count=1)
        if bare != name and bare in given:
            continue  # plain names win
        if plain.setdefault(bare, text) != text:
            raise UsageError(
                f"{bare} differs from one profile to another.", f"Give {bare} beside them."
            )
        if name.startswith("\ufeff"):
            taken.append(f"a byte order mark before {bare} as nothing")
    return plain


def _demand_known_names(properties: Mapping[str, str]) -> None:
    """Plain text would be what follows from names that kipctl does not know."""
    for name, text in properties.items():
        is_near = re.sub(r"\W|_", "", name).lower().endswith(_OF_LOGINS)
        if (is_near and not _ABOUT_CONNECTIONS.fullmatch(name)) or "security.protocol=" in text:
            raise UsageError(
                f"{name} is no name of a property that kipctl knows, and security.protocol is not"
                " given.",
                f"{_PROPERTIES}.",
            )


# --- Prefixes ---


def _of_frameworks(given: Mapping[str, str], taken: list[str]) -> dict[str, str]:
    """Without prefixes, as far as what is left is about a connection. Plain names win."""
    properties = dict(given)
    jaas: dict[str, str] = {}
    came_from: dict[str, str] = {}
    for name, text in given.items():
        if name == "export" and _VARIABLE.match(text):
            raise UsageError(
                "The properties file is a shell's: its lines begin with `export`.",
                "Leave that word out: KAFKA_SECURITY_PROTOCOL=SASL_SSL is read.",
            )
        variable = _VARIABLE.fullmatch(name)
        dotted = variable[1].lower().replace("_", ".") if variable else name
        dotted = _STREAM.sub("spring.kafka.", dotted)
        if dotted.startswith(_SPRING_JAAS):
            word = dotted.removeprefix(_SPRING_JAAS)
            jaas[word if word.startswith("options.") else _squeezed(word)] = text
            del properties[name]
            continue
        meant = _without_prefix(dotted)
        if meant is None:
            continue
        del properties[name]
        value = _path_of(name, text.strip("\"'") if variable else text)
        if meant in given:
            continue
        if meant in came_from and properties[meant] != value:
            raise UsageError(
                f"{came_from[meant]} and {name} are not the same.",
                f"Give {meant} beside them: kipctl makes connections of one kind.",
            )
        came_from[meant] = name
        properties[meant] = value
    taken += [f"{name} as {meant}" for meant, name in came_from.items()]
    if "loginmodule" in jaas and "sasl.jaas.config" not in properties:
        properties["sasl.jaas.config"] = _jaas_of_spring(jaas, taken)
    return properties


def _without_prefix(name: str) -> str | None:
    """What is meant by a name with a prefix; None if it has none, or is about something else."""
    if match := _SPRING.fullmatch(name) or _UI.fullmatch(name):
        rest = match[1].removeprefix("properties.")
        meant = _OF_SPRING.get(_squeezed(rest), rest)
    elif match := _PREFIX.fullmatch(name):
        meant = match[1]
    else:
        return None
    return meant if _ABOUT_CONNECTIONS.fullmatch(meant) else None


def _path_of(name: str, text: str) -> str:
    """Spring names files by URLs."""
    if text.startswith("classpath:"):
        raise UsageError(
            f"{name}={text} is inside of an application.", "Copy that file out, and name it."
        )
    return unquote(urlsplit(text).path) if text.startswith("file:") else text


def _jaas_of_spring(jaas: Mapping[str, str], taken: list[str]) -> str:
    options = {
        name.removeprefix("options."): text
        for name, text in jaas.items()
        if name.startswith("options.")
    }
    if not options and not jaas["loginmodule"].startswith(msk.CLASSES):
        raise UsageError(
            f"{_SPRING_JAAS}login-module has no {_SPRING_JAAS}options.username, nor a password.",
            f"Add {_SPRING_JAAS}options.username=... and {_SPRING_JAAS}options.password=...",
        )
    taken.append(f"{_SPRING_JAAS}* as sasl.jaas.config")
    return jaas_text(jaas["loginmodule"], options)


# --- librdkafka ---


def _verification(properties: dict[str, str], taken: list[str]) -> None:
    name = "enable.ssl.certificate.verification"
    if properties.pop(name, "true").strip().lower() not in ("true", "1", "t"):
        raise UsageError(
            f"{name} is off: whoever answers would get the login.",
            "Leave it out, and name the certificates to trust: ssl.ca.location=FILE",
        )
    algorithm = "ssl.endpoint.identification.algorithm"
    if properties.get(algorithm, "").strip().lower() == "none":
        properties[algorithm] = ""
        taken.append(f"{algorithm}=none as an empty one")


def _renamed(properties: dict[str, str], taken: list[str]) -> None:
    for theirs, javas in _SAME_MEANING.items():
        if theirs in properties and javas not in properties:
            properties[javas] = properties.pop(theirs)
            taken.append(f"{theirs} as {javas}")
    if properties.get("sasl.oauthbearer.method", "").lower() in ("default", "oidc"):
        del properties["sasl.oauthbearer.method"]


def _login(properties: dict[str, str], taken: list[str]) -> None:
    names = ("sasl.username", "sasl.password")
    given = [name for name in names if name in properties]
    mechanism = properties.get("sasl.mechanism", "").strip()
    if not given or "sasl.jaas.config" in properties:
        return
    if len(given) < len(names):
        (other,) = set(names) - set(given)
        raise UsageError(f"{given[0]} is given without {other}.", "Give both.")
    if not mechanism:
        raise UsageError(
            "sasl.username is given without sasl.mechanism.",
            f"It is one of {', '.join(_MODULES)}, as the broker's listener has it.",
        )
    if mechanism not in _MODULES:
        return  # it is refused by its name
    username, password = (properties.pop(name) for name in names)
    options = {"username": username, "password": password}
    properties["sasl.jaas.config"] = jaas_text(_MODULES[mechanism], options)
    taken.append("sasl.username and sasl.password as sasl.jaas.config")


def _kerberos(properties: dict[str, str], taken: list[str]) -> None:
    """librdkafka has no JAAS; without it, and where Java has it elsewhere, tickets are kinit's."""
    has_login = properties.get("security.protocol", "").strip().upper().startswith("SASL")
    if not has_login or "sasl.jaas.config" in properties or not is_of_kerberos(properties):
        return
    names = ("sasl.kerberos.keytab", "sasl.kerberos.principal")
    given = {name: properties.pop(name).strip() for name in names if name in properties}
    keytab, principal = (given.get(name, "") for name in names)
    options = {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab} if keytab else {}
    options = options or {"useTicketCache": "true"}
    options |= {"principal": principal} if principal else {}
    properties["sasl.jaas.config"] = jaas_text(KRB5_MODULE, options)
    if given:
        properties.setdefault("sasl.kerberos.service.name", "kafka")  # librdkafka's own default
        taken.append(f"{' and '.join(given)} as sasl.jaas.config")
    else:
        taken.append("no sasl.jaas.config as one with useTicketCache=true")


def _authorities(properties: dict[str, str], taken: list[str]) -> None:
    name = "ssl.ca.location"
    location = properties.get(name, "").strip()
    if not location or "ssl.truststore.location" in properties:
        return
    if Path(location).is_dir():
        raise UsageError(f"{name}={location} is a folder.", "Name one file of certificates in PEM.")
    del properties[name]
    if location == "probe":  # librdkafka's word for the system's
        return
    properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
    taken.append(f"{name} as ssl.truststore.location")


def _certificate(properties: dict[str, str], taken: list[str]) -> None:
    names = ("ssl.certificate.location", "ssl.key.location")
    given = [name for name in names if properties.get(name)]
    if not given or "ssl.keystore.location" in properties or "ssl.keystore.key" in properties:
        return
    if len(given) < len(names):
        (other,) = set(names) - set(given)
        raise UsageError(f"{given[0]} is given without {other}.", "Give both.")
    chain, key = (_content(name, properties[name]) for name in names)
    del properties[names[0]]  # the other one stays: who may read the key's file is looked at
    properties |= {"ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
    taken.append(f"{' and '.join(names)} as a keystore in PEM")


def _content(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="latin-1")
    except OSError as wrong:
        raise UsageError(f"{name}={path} cannot be read: {wrong.strerror}.") from None


# --- The JAAS line ---


def _oauth(properties: dict[str, str], taken: list[str]) -> None:
    """Quotes where none are needed to understand it; Strimzi's options under Java's names."""
    text = properties.get("sasl.jaas.config", "")
    try:
        options = jaas_options(text)
    except KipctlError:
        unquoted = unquoted_options(text)
        if unquoted is None:
            return  # refused where it is read
        options = unquoted
        taken.append("values of sasl.jaas.config without quotes as if they had them")
        properties["sasl.jaas.config"] = jaas_text(text.split()[0], options)
    if not any(name.startswith("oauth.") for name in options):
        return
    if "oauth.access.token" in options:
        raise UsageError(
            "sasl.jaas.config has oauth.access.token, which kipctl does not read.",
            "Write the token to a file: sasl.oauthbearer.token.endpoint.url=file:///...",
        )
    endpoint = options.pop("oauth.token.endpoint.uri", "")
    if endpoint:
        properties.setdefault("sasl.oauthbearer.token.endpoint.url", endpoint)
    properties["sasl.jaas.config"] = jaas_text(text.split()[0], dict(_of_strimzi(options)))
    if properties.get(_LOGIN_HANDLER, "").startswith(_STRIMZI):
        properties[_LOGIN_HANDLER] = _JAVAS_HANDLER
    taken.append("oauth.* of sasl.jaas.config as Java's options")


def _of_strimzi(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in options.items():
        bare = name.removeprefix("oauth.")
        yield _OF_JAAS.get(name, bare if bare == "scope" or bare.startswith("ssl.") else name), text


def _msk(properties: dict[str, str], taken: list[str]) -> None:
    """MSK takes IAM's logins in two ways: one is AWS's own, the other OAUTHBEARER."""
    mechanism = properties.get("sasl.mechanism", "").strip()
    if mechanism not in (msk.MECHANISM, _OAUTHBEARER):
        return
    handlers = {
        name
        for name in (_LOGIN_HANDLER, _CLIENT_HANDLER)
        if properties.get(name, "").strip().startswith(msk.CLASSES)
    }
    if handlers or mechanism == msk.MECHANISM:
        properties.pop(_CLIENT_HANDLER, None)
        properties[_LOGIN_HANDLER] = msk.LOGIN_HANDLER
    if mechanism == msk.MECHANISM:
        options = jaas_options(properties.get("sasl.jaas.config", ""))
        properties["sasl.mechanism"] = _OAUTHBEARER
        properties["sasl.jaas.config"] = jaas_text(_MODULES[_OAUTHBEARER], options)
        taken.append(
            f"{mechanism} as {_OAUTHBEARER} with a token of AWS's signer, which MSK takes as well,"
            f" in the whole region ({mechanism} signs for one broker)"
        )
