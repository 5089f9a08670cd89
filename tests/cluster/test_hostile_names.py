"""Whoever answers as a broker writes nothing on the terminal, whatever it puts into its answers."""

import csv
import io
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from all_requests import ALL_REQUESTS
from commands import Typed
from looped import looped
from protocol_oracles import Fill, random_message
from reassigning import Held, Reassigning
from scripted_broker import Asked, ScriptedBroker

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import ExitStatus
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataResponse
from kipctl.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kipctl.report.formats import OutputFormat

NOT_SEEN = [*range(32), *range(0x7F, 0xA1), 0xAD, 0x200B, 0x2028, 0x2029, 0x202E, 0x2066, 0xFEFF]
EVIL = "=HYPERLINK(" + "".join(map(chr, NOT_SEEN)) + "\x1b[8m)"
OF_RICH = re.compile(r"\x1b\[(\?25[lh]|[\d;]*[mAK])|\r(?=\x1b\[)")
VERSIONS = {request.api.key: request.api.versions for request in ALL_REQUESTS}


def with_texts(value: Any, text: Callable[[str], str]) -> Any:
    """A message with all its texts made others; null and empty ones of answers are there, too."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, tuple):
        return tuple(with_texts(item, text) for item in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    made = {field.name: with_texts(getattr(value, field.name), text) for field in fields(value)}
    return replace(value, **{name: item for name, item in made.items() if name != "host"})


def with_refusals(value: Any) -> Any:
    """A message in which a policy of the broker's has refused all that can say why."""
    if isinstance(value, tuple):
        return tuple(map(with_refusals, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    made = {field.name: with_refusals(getattr(value, field.name)) for field in fields(value)}
    if "error_message" in made:
        made |= {"error_code": ErrorCode.POLICY_VIOLATION, "error_message": "No"}
    return replace(value, **made)


@dataclass
class Hostile(Reassigning):
    """A cluster that reassigns, with EVIL in every text of every answer but the hosts, which lead
    to it. What it knows nothing of is answered with all that the answer has room for."""

    ports: dict[int, int] = field(default_factory=dict)
    refuses: bool = False
    """What has an error with a message of its own has one."""

    def answer(self, asked: Asked) -> Response | bytes | None:
        known = with_texts(asked.request, lambda text: text.replace(EVIL, ""))
        if isinstance(known, ApiVersionsRequest):
            return None
        if isinstance(known, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=("PLAIN",))
        answer = super().answer(asked._replace(request=known))
        if isinstance(known, SaslAuthenticateRequest):
            answer = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, EVIL)
        if answer is None:
            answer = random_message(type(known).response, asked.version, Random(0), Fill.FULL)
        if isinstance(answer, MetadataResponse):
            brokers = (
                replace(node, port=self.ports[node.node_id], rack="r") for node in answer.brokers
            )
            answer = replace(answer, brokers=tuple(brokers))
        assert isinstance(answer, Response)
        if self.refuses:
            answer = with_refusals(answer)
        return with_texts(answer, lambda text: EVIL + text)


class Screen(io.StringIO):
    """What a terminal was sent."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def cluster() -> Iterator[Hostile]:
    held = {PartitionId("t", p): Held((1 + p % 3, 1 + (p + 1) % 3), 1 + p % 3) for p in range(3)}
    held[PartitionId("t", 2)].leader = 1
    cluster = Hostile(held)
    with ExitStack() as running, TemporaryDirectory() as folder:
        for id in cluster.brokers:
            broker = running.enter_context(ScriptedBroker(cluster.answer, VERSIONS))
            cluster.ports[id] = cluster.port = broker.port
        cluster.state = Path(folder)
        yield cluster


def assert_harmless(text: str) -> None:
    """Nothing of it is obeyed by a terminal, and no text of a broker's begins a line: what stands
    behind EVIL's new line would."""
    assert text.replace("\n", "").replace("\t", "").isprintable()
    assert not re.search(r"^\\x0b", text, re.MULTILINE)


def written(
    cluster: Hostile,
    line: str,
    typed: str | None = None,
    stream: type[io.StringIO] = io.StringIO,
    **more: str,
) -> str:
    """What a command writes to both streams; a fault of kipctl is none of its ends."""
    out, err = stream(), stream()
    variables = {
        "KIPCTL_BOOTSTRAP_SERVER": cluster.bootstrap_server,
        "XDG_STATE_HOME": str(cluster.state),
        **more,
    }
    environment = Environment(Typed(typed, lambda: None), out, err, variables)
    status = run(shlex.split(line), environment)
    assert status != ExitStatus.FAULT, err.getvalue()
    return out.getvalue() + err.getvalue()


LOOKS = (
    "inspect brokers",
    "inspect leaders",
    "inspect metadata",
    "inspect replica-selection",
    "reassign --rotate --all-topics --dry-run",
    "reassign --list",
    "changes list",
    "elect preferred --all --dry-run",
    "roll --manual --dry-run",
    "wait --until in-sync --timeout 1s",
    "clusters test",
    "request-log status",
)
CHANGES = (
    "reassign --rotate --all-topics",
    "reassign --drain 1 --all-topics",
    "elect preferred --all",
    "elect unclean --all",
    "roll --exec true",
    "request-log on",
    "perf produce --topic {topic} --num-records 10",
    "perf consume --topic {topic} --timeout 1s",
    "perf metadata",
)


@pytest.mark.parametrize("look", LOOKS)
@looped("output", OutputFormat)
def test_an_answer_writes_nothing_that_is_obeyed(
    look: str, output: OutputFormat, cluster: Hostile
) -> None:
    text = written(cluster, f"{look} --output {output}")
    assert_harmless(text)
    if output is OutputFormat.CSV:
        cells = (cell for row in csv.reader(text.splitlines()) for cell in row)
        assert not [cell for cell in cells if cell.startswith("=")]


@pytest.mark.parametrize("change", ["inspect hints", *CHANGES])
@looped("typed", (None, "n\n", "y\n"))
def test_nor_does_a_question_or_what_follows_it(
    change: str, typed: str | None, cluster: Hostile
) -> None:
    line = change.format(topic=shlex.quote(f"{EVIL}t"))
    assert_harmless(written(cluster, line, typed))


@pytest.mark.parametrize("line", [*LOOKS, *CHANGES, "reassign --rotate --topic {topic}"])
def test_why_a_broker_refuses_is_one_line(line: str, cluster: Hostile) -> None:
    cluster.refuses = True
    assert_harmless(written(cluster, line.format(topic=shlex.quote(f"{EVIL}t")), "y\n"))


def test_what_stands_before_the_question_of_a_roll_is_one_line_each(cluster: Hostile) -> None:
    text = written(cluster, "roll --exec false --force", "n\n")
    assert "Not known: min.insync.replicas of 1 topic, such as =HYPERLINK(" in text
    assert not re.search(r"^\\x0b", text, re.MULTILINE)


@pytest.mark.parametrize("line", ["", *LOOKS, "reassign --rotate --all-topics"])
def test_nor_does_a_screen(line: str, cluster: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    text = written(cluster, line, "n\n", Screen)
    assert "\x1b[8m" not in text
    assert_harmless(OF_RICH.sub("", text))


@pytest.mark.parametrize("line", ["", "clusters test", "inspect leaders"])
def test_nor_does_who_refuses_a_login(line: str, cluster: Hostile) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file = cluster.state / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="alice" password="wrong";\n'
    )
    text = written(cluster, line, KIPCTL_COMMAND_CONFIG=str(file))
    assert_harmless(text)
    assert r"\x1b[8m)" in text
