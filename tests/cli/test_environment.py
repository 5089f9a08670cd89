"""Where a command stands: what it asks, what it tells, and which cluster it means."""

import errno
import io
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
from in_process import Terminal

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.errors import ExitStatus, RefusedError, UsageError
from kipctl.lab.certificates import Authority
from kipctl.process import Process, current_process
from kipctl.transport.access import Access
from kipctl.transport.clusters import NamedCluster, add_cluster, clusters_file


def environment(
    typed: str | None = None, variables: dict[str, str] | None = None, terminal: bool = False
) -> Environment:
    """With its own streams; `typed` is what a person at a terminal answers."""
    stdin = io.StringIO() if typed is None else Terminal(typed)
    stderr = Terminal() if terminal else io.StringIO()
    return Environment(stdin, io.StringIO(), stderr, variables or {})


def told(where: Environment) -> str:
    return cast(io.StringIO, where.stderr).getvalue()


@pytest.mark.parametrize(
    ("typed", "answer", "goes_on"),
    [
        *(("", answer, True) for answer in ("y\n", "yes\n", " YES \n", "y")),
        *(("", answer, False) for answer in ("\n", "n\n", "no\n", "ye\n", "maybe\n", "")),
        # What cannot be undone takes more than a y.
        ("312", "312\n", True),
        *(("312", answer, False) for answer in ("y\n", "yes\n", "31\n", "\n")),
    ],
)
def test_only_what_was_asked_for_goes_on(typed: str, answer: str, goes_on: bool) -> None:
    where = environment(typed=answer)
    if goes_on:
        where.confirm("Move 100 leaders?", yes=False, typed=typed)
    else:
        with pytest.raises(RefusedError, match="Nothing was changed"):
            where.confirm("Move 100 leaders?", yes=False, typed=typed)
    # A line that ends without Enter, as by Control-D, is ended.
    asked = f"Move 100 leaders? {f'Type {typed}:' if typed else '[y/N]'} "
    assert told(where) == asked + ("" if answer.endswith("\n") else "\n")


def test_ctrl_c_at_a_question_says_that_nothing_was_changed() -> None:
    class Interrupted(Terminal):
        def readline(self, size: int | None = -1) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interrupted:
        Environment(Interrupted(), io.StringIO(), io.StringIO(), {}).confirm("Move?", yes=False)
    assert interrupted.value.__notes__ == ["Nothing was changed."]


REWRITTEN = "abc\x1b[2K\x1b[1G\nCluster staging. Reassign 1 partition? [y/N] \x1b[8m"


def test_no_cluster_writes_the_question_about_it() -> None:
    where = environment(typed="n\n")
    where.access("a:1").ids.add(REWRITTEN)
    with pytest.raises(RefusedError):
        where.confirm(f"Reassign 5,000 partitions of {REWRITTEN}?", yes=False)
    assert told(where).endswith("? [y/N] ")
    assert told(where).count(REWRITTEN.encode("unicode_escape").decode()) == 2
    assert told(where).isprintable()


@pytest.mark.parametrize("typed", ["", "312"])
def test_yes_beforehand_asks_nothing(typed: str) -> None:
    where = environment()
    where.confirm("Move 100 leaders?", yes=True, typed=typed)
    assert told(where) == ""


def test_without_a_terminal_there_is_nobody_to_ask() -> None:
    with pytest.raises(UsageError, match="Repeat with --yes"):
        environment().confirm("Move 100 leaders?", yes=False)


@dataclass
class RunningLab:
    """What is asked of a lab that runs."""

    name: str = "lab"
    bootstrap_server: str = "127.0.0.1:1"
    properties: dict[str, str] = field(default_factory=dict)
    owner: Process | None = None
    is_orphan: bool = False
    client_properties: Path | None = None
    metrics_urls: tuple[str, ...] = ()


@pytest.fixture
def labs(monkeypatch: pytest.MonkeyPatch) -> list[RunningLab]:
    """The labs that run: one, unless the test says otherwise."""
    running = [RunningLab()]
    monkeypatch.setattr("kipctl.lab.running.running_labs", lambda: running)
    return running


def test_the_option_wins_over_the_variable_and_the_lab(labs: list[RunningLab]) -> None:
    where = environment(variables={"KIPCTL_BOOTSTRAP_SERVER": "variable:2"})
    assert where.access("option:3") == Access("option:3")
    assert where.access(None) == Access("variable:2")
    assert told(where) == ""


def test_the_one_running_lab_is_used_and_that_is_said(labs: list[RunningLab]) -> None:
    where = environment()
    assert where.access(None) == Access("127.0.0.1:1")
    assert told(where) == "Using the running lab 'lab' at 127.0.0.1:1.\n"


@pytest.mark.parametrize(
    ("asked", "is_named"),
    [("127.0.0.1:2", True), ("localhost:2", True), ("127.0.0.1:1", False), ("kafka1:9092", False)],
)
def test_after_a_wrong_port_of_this_machine_the_running_lab_is_named(
    asked: str, is_named: bool, labs: list[RunningLab]
) -> None:
    where = environment()
    where.access(asked)
    where.report_running_labs()
    assert told(where) == ("Labs that run here: 'lab' at 127.0.0.1:1.\n" if is_named else "")


@pytest.mark.parametrize("listens", [False, True], ids=["refused", "closed at once"])
def test_the_running_lab_is_named_where_nothing_listens(
    listens: bool, labs: list[RunningLab]
) -> None:
    where = environment()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def close_all() -> None:
            with suppress(OSError):  # the test has ended
                while True:
                    server.accept()[0].close()

        if listens:
            Thread(target=close_all, daemon=True).start()
        else:
            server.close()
        status = run(["inspect", "leaders", "--bootstrap-server", address], where)
        if listens:
            server.shutdown(socket.SHUT_RDWR)
    assert status == ExitStatus.UNREACHABLE
    assert ("Labs that run here: 'lab' at 127.0.0.1:1." in told(where)) is not listens


@pytest.mark.parametrize(
    ("connecting", "variables", "principal"),
    [
        ({}, {}, "User:admin"),
        ({}, {"KIPCTL_COMMAND_CONFIG": "OTHER"}, "User:admin"),  # another cluster's, most likely
        ({"command_config": "OTHER"}, {}, "User:other"),
    ],
)
def test_a_lab_is_reached_with_its_own_login_unless_an_option_gives_another(
    connecting: dict[str, str],
    variables: dict[str, str],
    principal: str,
    clusters: dict[str, str],
    labs: list[RunningLab],
) -> None:
    labs[0].properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x required username="admin" password="p";',
    }
    where = reaching(clusters, variables, connecting)
    assert where.access(None).security.principal == principal


@pytest.mark.parametrize(
    ("running", "refusal"),
    [
        (
            [RunningLab("one"), RunningLab("two", "127.0.0.1:2")],
            r"one \(127.0.0.1:1\), two \(127.0.0.1:2\)",
        ),
        ([], "kipctl lab up"),
    ],
)
def test_without_a_lab_or_with_several_none_is_chosen(
    running: list[RunningLab], refusal: str, labs: list[RunningLab]
) -> None:
    labs[:] = running
    with pytest.raises(UsageError, match=refusal):
        environment().access(None)


def test_the_lab_of_a_run_is_never_the_default_and_named_when_its_run_is_gone(
    labs: list[RunningLab],
) -> None:
    gone = Process(2**22 + 1, "0")
    labs[:] = [
        RunningLab("experiment-1", owner=current_process()),
        RunningLab("experiment-2", owner=gone, is_orphan=True),
    ]
    where = environment()
    with pytest.raises(UsageError, match="No cluster was named, and no lab runs"):
        where.access(None)
    assert told(where) == (
        "The run that made lab 'experiment-2' is gone. Remove it:"
        " kipctl lab down --name experiment-2\n"
    )


def test_progress_off_a_terminal_is_plain_lines_on_stderr() -> None:
    where = environment()
    with where.progress("Starting") as tell:
        tell("broker 1")
        tell("broker\n2")
    assert told(where) == "Starting\nbroker 1\nbroker\\n2\n"


class ClosedTerminal(Terminal):
    """A terminal whose window is closed meanwhile."""

    is_closed = False

    def write(self, text: str) -> int:
        if self.is_closed:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)

    def flush(self) -> None:
        if self.is_closed:
            raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("drawn", [Environment.progress, Environment.live])
def test_a_terminal_that_is_closed_cuts_no_clean_up_off(
    drawn: Callable[[Environment], AbstractContextManager[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = ClosedTerminal()
    where = replace(environment(), stderr=terminal)
    cleaned_up = []

    def cut_off() -> None:
        with drawn(where):
            try:
                terminal.is_closed = True
                raise KeyboardInterrupt  # SIGHUP comes as one
            finally:
                where.message("Removing the lab.")
                cleaned_up.append("lab")

    with pytest.raises(KeyboardInterrupt):
        cut_off()
    assert cleaned_up == ["lab"]


def test_a_message_during_progress_has_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    where = environment(terminal=True)
    with where.progress("Starting"):
        where.message("Using the running lab.")
    where.message("Done.")
    assert "Using the running lab.\n" in told(where)
    assert told(where).endswith("Done.\n")


@pytest.fixture
def clusters(tmp_path: Path) -> dict[str, str]:
    """Variables with two named clusters, `a` with a login of its own."""
    variables = {"XDG_CONFIG_HOME": str(tmp_path)}
    of_a, other = tmp_path / "a.properties", tmp_path / "other.properties"
    login = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x required "
    of_a.write_text(login + 'username="a" password="p";\n')
    other.write_text(login + 'username="other" password="p";\n')
    for entry in (NamedCluster("a", "a:1", str(of_a), id="id-a"), NamedCluster("b", "b:1")):
        add_cluster(clusters_file(variables), entry)
    silent = tmp_path / "silent.properties"
    silent.write_text("acks=all\n")
    return variables | {"OTHER": str(other), "SILENT": str(silent)}


def test_what_the_way_to_a_cluster_gives_away_is_said_once(clusters: dict[str, str]) -> None:
    where = reaching(clusters, {}, {"cluster": "a"})
    where.access(None)
    assert told(where).count("SASL_PLAINTEXT with PLAIN sends the password unencrypted") == 1


def test_to_whom_a_token_of_iams_goes_is_said_where_the_name_does_not_tell(
    clusters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    where = reaching(clusters, {}, {})
    where.access("h:1", {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"})
    assert told(where).count("IAM's token for eu-west-1 goes to h:1, by name not MSK's") == 1


def reaching(
    clusters: dict[str, str], variables: dict[str, str], connecting: dict[str, str]
) -> Environment:
    """With these variables and options of connecting; OTHER stands for the other file."""
    where = environment(variables=clusters | {n: clusters.get(v, v) for n, v in variables.items()})
    where.connecting |= {n: clusters.get(v, v) for n, v in connecting.items()}
    return where


@pytest.mark.parametrize(
    ("options", "variables", "servers", "principal"),
    [
        ({"cluster": "a"}, {}, "a:1", "User:a"),
        ({}, {"KIPCTL_CLUSTER": "a"}, "a:1", "User:a"),
        # A file that was given is not replaced by the variable's, whatever it says.
        (
            {"servers": "c:1", "command_config": "SILENT"},
            {"KIPCTL_COMMAND_CONFIG": "OTHER"},
            "c:1",
            "User:ANONYMOUS",
        ),
        ({"cluster": "a", "command_config": "SILENT"}, {}, "a:1", "User:a"),
        ({"cluster": "b", "command_config": "SILENT"}, {}, "b:1", "User:ANONYMOUS"),
        # What an option names is reached as its entry says, whatever a variable says.
        ({"cluster": "a"}, {"KIPCTL_COMMAND_CONFIG": "OTHER"}, "a:1", "User:a"),
        ({"cluster": "b"}, {"KIPCTL_COMMAND_CONFIG": "OTHER"}, "b:1", "User:ANONYMOUS"),
        ({"cluster": "a", "command_config": "OTHER"}, {}, "a:1", "User:other"),
        # Servers that are named are not the cluster of a variable.
        ({"servers": "c:1"}, {"KIPCTL_CLUSTER": "a"}, "c:1", "User:ANONYMOUS"),
        ({"servers": "c:1"}, {"KIPCTL_COMMAND_CONFIG": "OTHER"}, "c:1", "User:other"),
        ({}, {"KIPCTL_CLUSTER": "a", "KIPCTL_COMMAND_CONFIG": "OTHER"}, "a:1", "User:a"),
        ({}, {"KIPCTL_CLUSTER": "a", "KIPCTL_BOOTSTRAP_SERVER": "c:1"}, "a:1", "User:a"),
        ({}, {"KIPCTL_BOOTSTRAP_SERVER": "c:1"}, "c:1", "User:ANONYMOUS"),
        # What a command gives to its own client beats a variable too.
        ({"bootstrap.servers": "c:1"}, {"KIPCTL_CLUSTER": "a"}, "c:1", "User:ANONYMOUS"),
        ({"cluster": "a", "bootstrap.servers": "c:1"}, {}, "a:1", "User:a"),
        # A running lab's name is a cluster's, where no entry has it.
        ({"cluster": "lab"}, {}, "127.0.0.1:1", "User:other"),
        ({}, {"KIPCTL_CLUSTER": "lab"}, "127.0.0.1:1", "User:other"),
    ],
)
def test_which_cluster_is_meant_and_as_whom(
    options: dict[str, str],
    variables: dict[str, str],
    servers: str,
    principal: str,
    clusters: dict[str, str],
    labs: list[RunningLab],
) -> None:
    labs[0].client_properties = Path(clusters["OTHER"])
    labs.append(RunningLab("a"))
    properties = {n: v for n, v in options.items() if n == "bootstrap.servers"}
    named = {n: v for n, v in options.items() if n in ("cluster", "command_config")}
    where = reaching(clusters, variables, named)
    access = where.access(options.get("servers"), properties)
    assert (str(access), access.security.principal) == (servers, principal)
    assert access.name == {"a:1": "a", "b:1": "b", "c:1": "", "127.0.0.1:1": "lab"}[servers]
    is_silent = options.get("command_config") == "SILENT"
    assert ("silent.properties says nothing of security: " in told(where)) is is_silent


@pytest.mark.parametrize(
    ("connecting", "servers", "told"),
    [
        ({"cluster": "a"}, "c:1", "name two clusters"),
        ({"cluster": "never"}, None, "no cluster 'never'; there is: a, b, lab\\."),
    ],
)
def test_what_does_not_go_together_is_refused(
    connecting: dict[str, str],
    servers: str | None,
    told: str,
    clusters: dict[str, str],
    labs: list[RunningLab],
) -> None:
    labs.append(RunningLab("of-a-run", owner=current_process()))
    where = reaching(clusters, {}, connecting)
    with pytest.raises(UsageError, match=told):
        where.access(servers)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (
            "client.id=x\n",
            ["client.properties says nothing of security: no TLS, and no login.", "client.id"],
        ),
        (
            "spring.kafka.security.protocol=SSL\nspring.kafka.client-id=x\n",
            [
                "client.properties, as Java's clients say it: spring.kafka.security.protocol as"
                " security.protocol.",
                "nothing of how to connect: spring.kafka.client-id.",
            ],
        ),
        (
            "secuirty.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.provider=x\n",
            [
                "nothing of how to connect: secuirty.protocol.",
                "no TLS and no login: these do nothing: sasl.mechanism",
                "Not used by kipctl: ssl.provider.",
            ],
        ),
        ("# Schlüssel\nssl.provider=x\n", ["is read as UTF-8, and by Java as ISO 8859-1"]),
        (
            "security.protocol=SSL\nssl.truststore.location={ca}\n",
            ["Java's clients take PEM only with ssl.truststore.type=PEM."],
        ),
        *(
            (f"{line}\n", [f"Not used by kipctl: {line.partition('=')[0]}{meant}"])
            for line, meant in (
                ("security.protocl=SASL_SSL", " (security.protocol?)"),
                ("sasl.jass.config=x", " (sasl.jaas.config?)"),
                ("ssl.protocol=TLSv1.3", "."),
                ("ssl.provider=x", "."),
                ("ssl.provider=\\u00fc", "."),
                ("sasl.client.callback.handler.class=x", "."),
                ("sasl.login.refresh.window.factor=1", "."),
            )
        ),
    ],
)
def test_what_a_file_says_without_effect_or_otherwise_for_java_is_named(
    text: str, warnings: list[str], tmp_path: Path
) -> None:
    ca, file = tmp_path / "ca.pem", tmp_path / "client.properties"
    ca.write_bytes(Authority().pem)
    file.write_text(text.format(ca=ca), encoding="utf-8")
    where = environment()
    where.connecting["command_config"] = str(file)
    where.access("a:1")
    assert [warning for warning in warnings if warning not in told(where)] == []
    assert ("ISO 8859-1" in told(where)) is not text.isascii()


@pytest.mark.parametrize(("yes", "step"), [(False, "--yes --expect-cluster ID"), (True, "ID as")])
def test_without_a_terminal_all_that_a_protected_cluster_takes_is_said_at_once(
    yes: bool, step: str
) -> None:
    where = environment()
    where._access = Access("a:1", is_protected_name=True)
    with pytest.raises(UsageError) as raised:
        where.confirm("Move?", yes=yes)
    assert step in raised.value.next_step


@pytest.mark.parametrize(
    ("connecting", "servers", "named"),
    [({}, None, None), ({}, "c:1", "c:1"), ({"cluster": "a"}, None, "a:1")],
)
def test_an_experiment_goes_to_a_cluster_that_an_option_names_and_to_no_other(
    connecting: dict[str, str], servers: str | None, named: str | None, clusters: dict[str, str]
) -> None:
    """Leaders rotate and brokers end there: a variable that somebody left set is no wish for it."""
    variables = {"KIPCTL_CLUSTER": "b", "KIPCTL_BOOTSTRAP_SERVER": "d:1"}
    where = reaching(clusters, variables, connecting)
    access = where.access_if_named(servers)
    assert (access and str(access)) == named
