"""What a tap is to do: where it listens, for which cluster, and what it changes on the way."""

import re
import ssl
from dataclasses import dataclass
from enum import Enum, auto

from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.protocol.address import host_port
from kipctl.protocol.api import ApiKey
from kipctl.transport.access import Access, parse_address

EVERYWHERE = ("0.0.0.0", "::")
"""Hosts that stand for all addresses of this machine: clients are told the one they came to."""
_NAMES = {"".join(part.title() for part in key.name.split("_")): key for key in ApiKey}
_RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|m|min|h)", re.ASCII)
_FIRST_WITH_IDS = 10
"""Of Metadata: answers tell the ids of topics."""
LAST_BY_NAME = 12
"""Of Produce and of Fetch: from the next version on topics are asked for by id."""
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of PEM files, the tap's own, for clients; without a certificate it speaks plainly.

    Clients need a certificate of an authority in `client_ca`, if that is given.
    """

    certificate: str = ""
    key: str = ""
    client_ca: str = ""

    def check(self) -> None:
        """Raise UsageError for files that cannot be used, and for one that would not be."""
        for option, file in (("--key", self.key), ("--client-ca", self.client_ca)):
            if file and not self.certificate:
                raise UsageError(f"{option} is for --certificate.", "Give both.")
        self.for_clients()

    def for_clients(self) -> ssl.SSLContext | None:
        """What clients' connections are made with; None for plain ones. Raises UsageError."""
        if not self.certificate:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"The certificate {self.certificate} cannot be used: {error}.",
                "Give PEM files with --certificate and --key.",
            ) from None
        if self.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self.client_ca)
            except (OSError, ssl.SSLError) as error:
                raise UsageError(
                    f"The authorities {self.client_ca} cannot be used: {error}.",
                    "Give a PEM file with --client-ca.",
                ) from None
        return context


class Lend(Enum):
    """Who may act with the tap's own client certificate."""

    NOBODY = auto()
    THIS_USER = auto()
    """Processes of the tap's own user, on its own machine."""
    EVERYBODY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class TapSpec:
    """`access` is how brokers are reached: their addresses and TLS. A login (SASL) is the clients'
    own, and passes.

    `caps` and `delays` are by API key: the highest version advertised, and for how many
    microseconds its answers are held. `resets_per_s` is of connections, over all clients.
    """

    access: Access
    listen: str = "127.0.0.1:0"
    advertise: str = ""
    """HOST or HOST:PORT that clients are told of, in place of where it listens: through a port
    forward, or by the name in its certificate. PORT stands for that of `listen`, and those after it
    for those after it."""
    caps: tuple[tuple[int, int], ...] = ()
    delays: tuple[tuple[int, int], ...] = ()
    drop_hints: bool = False
    stale_metadata_us: int = 0
    resets_per_s: float = 0.0
    tls: TlsFiles = TlsFiles()
    lends: Lend = Lend.NOBODY
    topic: str = ""
    """Whose leaders are moved meanwhile, if it is known (`ClientSeen.knows_topic`)."""

    @property
    def identity(self) -> str:
        """Who each client is to brokers by the certificate of `access`; "" if there is none."""
        tls = self.access.security.tls
        return tls.subject if tls and tls.chain else ""

    def check(self) -> None:
        """Raise UsageError for what cannot be, and for an identity that nobody said to lend."""
        self.tls.check()
        _ = self.advertised
        if self.identity and self.lends is Lend.NOBODY:
            raise UsageError(
                f"Whoever connects to the tap would be {self.identity} to the brokers: they know"
                " its certificate, and not who is behind it.",
                "Give --lend-identity if that is meant (--client-ca FILE says who may connect), or"
                " settings without ssl.keystore.*.",
            )

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port; port 0 for any. Raises UsageError."""
        return parse_address(self.listen, f"--listen {self.listen}", least_port=0)

    @property
    def tells_no_ids(self) -> bool:
        """Whether the cap of Metadata keeps the ids of topics from clients."""
        return dict(self.caps).get(int(ApiKey.METADATA), _FIRST_WITH_IDS) < _FIRST_WITH_IDS

    @property
    def advertised(self) -> tuple[str, int] | None:
        """Host, and what is to be added to ports; None where clients are told as it listens.

        Raises UsageError.
        """
        if not self.advertise:
            return None
        bare = self.advertise.removeprefix("[").removesuffix("]")
        if ":" not in self.advertise or self.advertise == f"[{bare}]":
            return bare, 0
        host, port = parse_address(self.advertise)
        _, first = self.listen_address
        if not first or not port:
            raise UsageError(
                "--advertise with a port goes with a --listen that has one.",
                "Brokers get the ports after it, on both sides.",
            )
        return host, port - first

    def advertised_address(self, listens: str) -> str:
        """What clients are told of in place of where the tap listens, both as `host:port`.

        Raises UsageError.
        """
        host, port = parse_address(listens)
        advertised, add = self.advertised or (host, 0)
        return host_port(host if advertised in EVERYWHERE else advertised, port + add)


def parse_caps(text: str) -> tuple[tuple[int, int], ...]:
    """`Produce=9,Fetch=15`: the highest version that clients are told of. Raises UsageError.

    Without ids in Metadata clients cannot ask by id: the others are capped with it.
    """
    caps: dict[int, int] = {}
    for name, value in _pairs("--cap", text, "Produce=9,Fetch=15"):
        if not (value.isascii() and value.isdigit()) or int(value) > 0x7FFF:
            raise UsageError(f"--cap {name}={value}: {value!r} is no version.")
        caps[_api(name)] = int(value)
    if caps.get(ApiKey.METADATA, _FIRST_WITH_IDS) < _FIRST_WITH_IDS:
        for key in (ApiKey.PRODUCE, ApiKey.FETCH):
            caps[key] = min(caps.get(key, LAST_BY_NAME), LAST_BY_NAME)
    return tuple((int(key), highest) for key, highest in caps.items())


def parse_delays(text: str) -> tuple[tuple[int, int], ...]:
    """`Metadata=300ms`: for how long answers are held, in microseconds. Raises UsageError."""
    pairs = _pairs("--delay", text, "Metadata=300ms")
    return tuple((_api(name), Duration.parse(value, "").us) for name, value in pairs)


def parse_rate(text: str) -> float:
    """A rate such as `2/s` or `10/min`, in 1/s. Raises UsageError."""
    match = _RATE.fullmatch(text.strip())
    if not match or not float(match[1]):
        raise UsageError(f"{text!r} is no rate.", "Write it as 2/s, 10/min or 1/h.")
    return float(match[1]) / _SECONDS[match[2]]


def api_name(key: int) -> str:
    """Kafka's name of an API, or its number."""
    return next((name for name, known in _NAMES.items() if known == key), f"API {key}")


def _pairs(option: str, text: str, example: str) -> list[tuple[str, str]]:
    pairs = []
    for pair in text.split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise UsageError(f"{option} {text!r} is not understood.", f"Write it as {example}.")
        pairs.append((name, value))
    return pairs


def _api(name: str) -> int:
    for known, key in _NAMES.items():
        if known.lower() == name.lower():
            return int(key)
    raise UsageError(f"{name!r} is no API that kipctl knows.", f"It knows {', '.join(_NAMES)}.")
