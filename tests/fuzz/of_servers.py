"""What servers say: exporters, token endpoints, and brokers that answer a command."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from all_requests import ALL_REQUESTS
from fuzzing import FaultError, Reader
from http_peers import Peer, peer
from loopback_only import AnotherMachineError
from mutations import bytes_changed, frame_changed, text_changed
from of_files import REPLICAS, commanded
from protocol_oracles import Fill, fields_of, random_message
from reassigning import Held, Reassigning, running
from scripted_broker import Asked
from test_broker_metrics import BY_RULES, URL, WITHOUT_RULES

from kipctl.cluster.broker_metrics import parse, samples_in, scrape
from kipctl.guard.conditions import parse_guard
from kipctl.guard.exporters import Exporters
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.message import Message, Response
from kipctl.security.sasl import Scram
from kipctl.security.tls import Tls
from kipctl.security.tokens import ClientCredentials

Readers = Iterator[Mapping[str, Reader]]


@contextmanager
def prometheus(_: Path) -> Readers:
    """Prometheus' text, of brokers with rules for their exporter and without."""
    names = ["process_start_time_seconds", "kafka_server_app_info_version", "jvm_memory_used_bytes"]

    def metrics(content: bytes) -> None:
        broker_metrics = parse(content.decode("utf-8", "replace"), URL)
        assert all(0 <= count < 1 << 63 for count in broker_metrics.requests.values())

    def samples(content: bytes) -> None:
        samples_in(content.decode("utf-8", "replace"), URL, names)

    started = "process_start_time_seconds 1.7E9\n"
    sound = [text.encode() for text in (BY_RULES + started, WITHOUT_RULES + started)]
    sound.append(sound[0].replace(b"\n", b" 1700000000000\n") + b"# EOF\n")
    yield {
        "metrics": Reader(sound, metrics, text_changed, memory=400),
        "samples": Reader(sound, samples, text_changed, memory=400),
    }


def http_changed(content: bytes, choose: Random) -> bytes:
    """Mostly the head; the announced length of the body is often as it was."""
    head, end, body = content.partition(b"\r\n\r\n")
    match choose.randrange(4):
        case 0:
            return text_changed(head, choose) + end + body
        case 1:
            return bytes_changed(head, choose) + end + body
        case 2:
            return head + end + text_changed(body, choose)
        case _:
            return bytes_changed(content, choose)


def _http(body: bytes, *headers: bytes) -> bytes:
    lines = (b"HTTP/1.1 200 OK", b"Content-Type: text/plain; charset=utf-8", *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@contextmanager
def http(_: Path) -> Readers:
    """Answers of exporters and of a token endpoint: heads, chunks, bodies."""
    said = b""

    def speak(_: Peer, connection: Any) -> None:
        connection.sendall(said)

    metrics = BY_RULES.encode() + b"process_start_time_seconds 1.7E9\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (metrics[:90], metrics[90:]))
    token = b'{"access_token": "a.eyJzdWIiOiJtZSIsImV4cCI6MX0.c", "expires_in": 3600}'
    refused = b'{"error": "invalid_client", "error_description": "no"}'
    with peer(speak) as server, mock.patch("kipctl.security.tokens._ATTEMPTS", 1):
        endpoint = ClientCredentials(server.url, "me", "s", "kafka", Tls())
        exporters = Exporters((server.url,))

        def read(what: Any) -> Any:
            def reader(content: bytes) -> None:
                nonlocal said
                said = content
                what()

            return reader

        def token_of() -> None:
            access_token = endpoint.fetch()
            assert access_token.text.isascii()

        def guarded() -> None:
            exporters.values([parse_guard("metric kafka_x > 5")])
            exporters.started_at(1)

        of_exporters = [
            _http(metrics, b"Content-Length: %d" % len(metrics)),
            _http(chunks + b"0\r\nA: b\r\n\r\n", b"Transfer-Encoding: chunked"),
            _http(metrics, b"Connection: close"),
            b"HTTP/1.1 100 Continue\r\n\r\n" + _http(metrics, b"X: y\r\n z"),
        ]
        of_endpoints = [
            _http(token, b"Content-Length: %d" % len(token)),
            _http(token),
            _http(refused).replace(b"200 OK", b"401 Unauthorized"),
        ]
        yield {
            "an exporter": Reader(
                of_exporters, read(lambda: scrape(server.url, 5)), http_changed, memory=400
            ),
            "a guard's exporter": Reader(of_exporters, read(guarded), http_changed, memory=400),
            "a token endpoint": Reader(of_endpoints, read(token_of), http_changed, memory=400),
        }


@contextmanager
def logins(_: Path) -> Readers:
    """A broker's side of SCRAM: its challenge, and its proof."""

    def scram(content: bytes) -> None:
        login = Scram("sha256", "me", "p", nonce="n")
        for challenge in content.split(b"\n"):
            if login.answer(challenge) is None:
                return

    sound = b"r=nx,s=c2FsdA==,i=4096\nv=cHJvb2Y=", b"r=nx,s=c2FsdA==,i=4096\ne=other-error"
    yield {"SCRAM": Reader(sound, scram, text_changed)}


# Brokers' answers to a command

COMMANDS = (
    "inspect brokers",
    "inspect leaders",
    "inspect metadata",
    "inspect hints",
    "inspect replica-selection",
    "clusters test",
    "reassign --list",
    "reassign --rotate --all-topics --dry-run",
    "reassign --drain 3 --dry-run",
    "elect preferred --all --dry-run",
    "roll --dry-run --manual",
    "request-log status",
    "wait --until in-sync --timeout 1s",
)


def with_another_field(message: Any, version: int, choose: Random) -> Any:
    """The message with another value in one of its fields, or of what is in these."""
    fields = [name for name, _, _ in fields_of(type(message), version)]
    if not fields:
        return message
    name = choose.choice(fields)
    value = getattr(message, name)
    if isinstance(value, tuple) and value and isinstance(value[0], Message):
        at = choose.randrange(len(value))
        match choose.randrange(6):
            case 0:
                value = value[:at] + value[at + 1 :]
            case 1:
                value = (*value, value[at])
            case _:
                inner = with_another_field(value[at], version, choose)
                value = (*value[:at], inner, *value[at + 1 :])
    else:
        fill = choose.choice([*Fill])
        value = getattr(random_message(type(message), version, choose, fill), name)
    return replace(message, **{name: value})


@dataclass
class Lying(Reassigning):
    """A cluster whose brokers answer one request in a few otherwise than they should."""

    choose: Random = field(default_factory=Random)

    def answer(self, asked: Asked) -> Response | bytes | None:
        choose, version, cls = self.choose, asked.version, type(asked.request).response
        if isinstance(asked.request, ApiVersionsRequest):
            keys = tuple(ApiVersion(kind.api.key, *kind.api.versions) for kind in ALL_REQUESTS)
            usual: Response = ApiVersionsResponse(api_keys=keys)
        else:
            known = super().answer(asked)
            usual = (
                known
                if isinstance(known, Response)
                else random_message(cls, version, choose, Fill.FULL)
            )
        match choose.randrange(12):
            case 0:
                usual = random_message(cls, version, choose, choose.choice([*Fill]))
            case 1 | 2 | 3:
                for _ in range(choose.choice([1, 1, 2, 5])):
                    usual = with_another_field(usual, version, choose)
            case 4:
                return frame_changed(asked.answer(usual), choose)
        return asked.answer(usual)


@contextmanager
def brokers(folder: Path) -> Readers:
    """Brokers that lie to a command: what it is is all of its input, beside a number."""
    cluster = Lying({p: Held(ids, ids[0]) for p, ids in REPLICAS.items()})
    with running(cluster):
        variables = {
            "KIPCTL_BOOTSTRAP_SERVER": cluster.bootstrap_server,
            "XDG_STATE_HOME": str(folder),
        }

        def read(content: bytes) -> None:
            words, _, number = content.decode().partition(" # ")
            cluster.choose = Random(number)
            try:
                commanded(*words.split(), **variables)
            except FaultError as fault:  # what is no fault of kipctl's: it is to speak to loopback
                if AnotherMachineError.__name__ not in fault.args[1]:
                    raise

        def changed(content: bytes, choose: Random) -> bytes:
            return b"%b # %d" % (content, choose.getrandbits(32))

        yield {words: Reader([words.encode()], read, changed, memory=0) for words in COMMANDS}
