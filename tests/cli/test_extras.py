"""kipctl without its extras: what needs one says so before anything begins; the rest works."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import pytest
from wrong_options import VALID

from kipctl import extras
from kipctl.extras import MODULES, command_to_install, locked

REPOSITORY = Path(__file__).parents[2]
HELD_UP = {
    "analyze request-log",
    "analyze runs",
    "demo",
    "experiment batch",
    "experiment closest-replica",
    "experiment metadata",
    "experiment redirect",
    "experiment roll",
    "experiment run",
    "lab up",
    "report",
    "request-log pack",
    "runs compare",
    "spark start",
}
"""As they stand in VALID; those that start a lab, as long as its jars are not fetched."""
COMMANDS = """
import json, sys
from in_process import kipctl
from nothing_begun import nothing_begins
found = {}
for line, words in json.loads(sys.argv[1]).items():
    with nothing_begins() as begun:
        said = kipctl(*words, KIPCTL_CLUSTER="none")
    found[line] = said.status, said.err, begun
print(json.dumps(found))
"""
FETCH = """
from pathlib import Path
from kipctl.errors import UsageError
from kipctl.lab.jars import fetched_jars
from kipctl.lab.java import Java
try:
    fetched_jars("4.3.1", Java(Path("java"), "17"), print)
except UsageError as refused:
    print(refused)
"""
Python = Callable[..., str]


@pytest.fixture(scope="module")
def python_without_spark(tmp_path_factory: pytest.TempPathFactory) -> Python:
    """Runs a program where all is installed but what `kipctl[spark]` brings; returns its stdout."""
    folder = tmp_path_factory.mktemp("installed")
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(place).iterdir():
            if entry.name.partition("-")[0] not in MODULES["spark"]:
                (folder / entry.name).symlink_to(entry)
    path = os.pathsep.join(
        map(str, (folder, REPOSITORY, REPOSITORY / "tests" / "cli", REPOSITORY / "tests"))
    )
    state = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(program: str, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-S", "-c", program, *arguments],
            env=os.environ | state | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    return run


def test_what_needs_spark_says_so_before_anything_begins(
    python_without_spark: Python, tmp_path: Path
) -> None:
    for name in ("run", "other"):
        (tmp_path / name / "batches").mkdir(parents=True)
        (tmp_path / name / "run.json").write_text('{"schema_version": 1, "summary": {}}')
    arms = (f'[[arm]]\nname = "{name}"\nclient = "probe-kip951"\n' for name in "ab")
    (tmp_path / "experiment").write_text("".join(arms))
    names = ("run", "other", "log", "new", "experiment")
    places = {name: str(tmp_path / name) for name in names}
    lines = {name: f"{name} {options}".format(**places) for name, options in VALID.items()}
    lines["with workers"] = f"{lines['perf produce']} --workers 2 --bootstrap-server 127.0.0.1:1"
    words = {name: shlex.split(line) for name, line in lines.items()}
    outcomes = json.loads(python_without_spark(COMMANDS, json.dumps(words)))
    told = {name: outcome for name, outcome in outcomes.items() if "kipctl[spark]" in outcome[1]}
    assert told.keys() == HELD_UP | {"with workers"}
    for name, (status, err, begun) in told.items():
        assert (status, begun) == (2, []), name
        assert "\nInstall it: " in err
        assert command_to_install("spark").split()[-1] in err


def test_jars_are_not_fetched_without_it(python_without_spark: Python) -> None:
    assert python_without_spark(FETCH).splitlines() == [
        "Fetching Kafka 4.3.1 needs pyspark, which is not installed: it comes with kipctl[spark], "
        "half a gigabyte that most commands do without.",
        # There kipctl[connect] is not installed either, which brings Spark, too.
        f"Install it: {command_to_install('spark')}".replace("connect,", ""),
        "Or use an installed Kafka: --kafka-home DIR.",
    ]


SPARK, MSK = locked("spark"), locked("msk")
TOOLS = [
    ("venvs/kipctl", "pipx_metadata.json", "pipx install --force ", f"--pip-args='-c {SPARK}' "),
    ("tools/kipctl", "uv-receipt.toml", "uv tool install ", f"-c {SPARK} "),
    ("archive-v0/aBc", "pyvenv.cfg", "uvx ", f"-c {SPARK} "),
    ("venv", "pyvenv.cfg", f"{sys.executable} -m pip install ", f"-r {SPARK} "),
]


@pytest.mark.parametrize(("prefix", "file", "command", "lock"), TOOLS)
@pytest.mark.parametrize(
    ("origin", "requirement", "is_locked"),
    [
        # What pip and uv write down of `kipctl @ file:///k.whl#sha256=ab`.
        (
            '{"archive_info": {"hashes": {"sha256": "ab"}}, "url": "file:///k.whl"}',
            "'kipctl[spark] @ file:///k.whl#sha256=ab'",
            True,
        ),
        (
            '{"url": "file:///k.whl#sha256=ab", "archive_info": {}}',
            "'kipctl[spark] @ file:///k.whl#sha256=ab'",
            True,
        ),
        # Of these no hash is known, and pip wants one of all or none.
        ('{"url": "file:///k.whl", "archive_info": {}}', "'kipctl[spark] @ file:///k.whl'", False),
        (
            '{"url": "file:///src", "dir_info": {"editable": true}}',
            "'kipctl[spark] @ file:///src'",
            False,
        ),
        (None, "'kipctl[spark]'", False),
    ],
)
def test_the_command_is_that_of_the_tool_that_installed_kipctl_and_takes_what_is_locked(
    prefix: str,
    file: str,
    command: str,
    lock: str,
    origin: str | None,
    requirement: str,
    is_locked: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / prefix).mkdir(parents=True)
    (tmp_path / prefix / file).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / prefix))
    monkeypatch.setattr(PathDistribution, "read_text", lambda self, name: origin)
    monkeypatch.setattr(extras, "_installed", set)
    told = command_to_install("spark").removesuffix(" kipctl ...").replace(" --from ", " ")
    assert told == command + (lock if is_locked else "") + requirement


def test_an_environment_that_is_made_anew_keeps_the_extras_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    origin = '{"url": "file:///k.whl#sha256=ab", "archive_info": {}}'
    monkeypatch.setattr(PathDistribution, "read_text", lambda self, name: origin)
    monkeypatch.setattr(extras, "_installed", lambda: {"spark"})
    assert command_to_install("msk") == (
        f"pipx install --force --pip-args='-c {MSK} -c {SPARK}'"
        " 'kipctl[msk,spark] @ file:///k.whl#sha256=ab'"
    )


@pytest.mark.parametrize("extra", sorted(MODULES.keys() - {"kerberos"}))  # not all can build that
def test_an_extra_is_there_as_all_of_it_is(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert extra in extras._installed()
    for module in MODULES[extra]:
        with monkeypatch.context() as patched:
            patched.setattr(extras, "find_spec", lambda name, gone=module: name != gone or None)
            assert extra not in extras._installed()


def test_the_extra_is_what_is_missed() -> None:
    extra = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    names = {line.partition(">")[0] for line in extra["optional-dependencies"]["spark"]}
    needed = {re.split(r"\W", line)[0] for line in distribution("pyspark").requires or ()}
    assert names < MODULES["spark"] <= names | needed
