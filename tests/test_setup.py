"""What `make` does on a machine that lacks Python or Java, with that machine's commands played."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / ".ci" / "setup"
SAID = "kipctl setup: installing the package {} with apt-get\n"
JAVA = "echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of commands that is the whole PATH: a bare machine, and its user is not root."""
    for name in ("bash", "sed", "cp"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    add(tmp_path, "id", "echo 1000")
    return tmp_path


def add(machine: Path, name: str, body: str) -> None:
    (machine / name).unlink(missing_ok=True)
    (machine / name).write_text(f"#!{shutil.which('bash')}\n{body}\n")
    (machine / name).chmod(0o755)


def become_debian_root(machine: Path, **offered: str) -> None:
    """An apt-get that writes down its calls; installing a package brings the Java of `offered`."""
    add(machine, "id", "echo 0")
    cases = ""
    for package, version in offered.items():
        package = package.replace("_", "-")
        add(machine, f"java-of-{package}", JAVA.format(version=version))
        cases += f'*{package}) cp "{machine}/java-of-{package}" "{machine}/java" ;; '
    add(machine, "apt-get", f'echo "$*" >> "{machine}/calls"; case "$*" in {cases} esac')


def setup(
    machine: Path, *arguments: str, stdin: int = subprocess.DEVNULL, **variables: str
) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", SETUP, *arguments],
        env={"PATH": str(machine), **variables},
        stdin=stdin,
        capture_output=True,
        text=True,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_is_new_enough_is_left_alone(machine: Path, version: str) -> None:
    add(machine, "java", JAVA.format(version=version))
    assert setup(machine, "java") == (0, "")


def test_root_on_debian_gets_the_default_java(machine: Path) -> None:
    become_debian_root(machine, default_jre_headless="17.0.15")
    assert setup(machine, "java") == (0, SAID.format("default-jre-headless"))
    calls = (machine / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["update", "install"]
    assert calls[1].endswith("default-jre-headless")


@pytest.mark.parametrize(
    ("answer", "installs"),
    [("y\n", True), ("Yes\n", True), ("\n", False), ("n\n", False), ("yesterday\n", False)],
)
@pytest.mark.parametrize("wanted", ["java", "venv folder"])
def test_on_a_terminal_root_is_asked_before(
    machine: Path, wanted: str, answer: str, installs: bool
) -> None:
    become_debian_root(machine, default_jre_headless="17.0.15")
    add(machine, "python3", python("3.11", has_venv=False))
    package = "default-jre-headless" if wanted == "java" else "python3-venv"
    user, terminal = os.openpty()
    try:
        os.write(user, answer.encode())
        status, told = setup(machine, *wanted.split(), stdin=terminal)
    finally:
        os.close(user)
        os.close(terminal)
    assert f"install the package {package} with apt-get? [y/N] " in told
    assert (machine / "calls").exists() == installs
    assert (status == 0) == installs
    assert installs or "run make again" in told


def test_a_release_whose_default_is_too_old_gets_17(machine: Path) -> None:
    become_debian_root(machine, default_jre_headless="11.0.2", openjdk_17_jre_headless="17.0.1")
    assert setup(machine, "java")[0] == 0
    assert (machine / "calls").read_text().endswith("openjdk-17-jre-headless\n")


def python(version: str, has_venv: bool) -> str:
    """A python that answers what the script asks it, and writes down the folder it makes."""
    new_enough = tuple(map(int, version.split("."))) >= (3, 11)
    return (
        f'case "$*" in *version_info*) exit {0 if new_enough else 1} ;; '
        f"--version) echo Python {version} ;; "
        f"*ensurepip*) exit {0 if has_venv else 1} ;; "
        '"-m venv "*) echo made "$3" >&2 ;; *) exit 9 ;; esac'
    )


def test_the_first_python_that_is_new_enough_makes_the_environment(machine: Path) -> None:
    add(machine, "python3", python("3.10", has_venv=False))
    add(machine, "python3.12", python("3.12", has_venv=True))
    assert setup(machine, "venv", "folder") == (0, "made folder\n")


OLD_JAVA = ["Java 17 or newer is needed", "default-jre-headless"]


@pytest.mark.parametrize(
    ("wanted", "commands", "variables", "said"),
    [
        ("java", {}, {}, OLD_JAVA),
        ("java", {"java": JAVA.format(version="1.8.0_402")}, {}, OLD_JAVA),
        ("java", {"java": JAVA.format(version="11.0.2")}, {}, OLD_JAVA),
        ("java", {"java": JAVA.format(version="17.0.15")}, {"JAVA_HOME": "/no/such"}, ["/no/such"]),
        (
            *("venv folder", {"python3": python("3.10", has_venv=True)}, {}),
            ["Python 3.11 or newer is needed; here is Python 3.10"],
        ),
        ("venv folder", {"python3": python("3.11", has_venv=False)}, {}, ["python3-venv"]),
    ],
)
def test_what_is_missing_and_may_not_be_installed_is_named(
    machine: Path, wanted: str, commands: dict[str, str], variables: dict[str, str], said: list[str]
) -> None:
    for name, body in commands.items():
        add(machine, name, body)
    status, told = setup(machine, *wanted.split(), **variables)
    assert status == 1
    assert [words for words in said if words not in told] == []


def test_root_on_debian_gets_the_venv_package(machine: Path) -> None:
    add(machine, "python3", python("3.11", has_venv=False))
    become_debian_root(machine)
    status, told = setup(machine, "venv", "folder")
    assert (status, told) == (0, SAID.format("python3-venv") + "made folder\n")
    assert (machine / "calls").read_text().endswith("python3-venv\n")


def test_a_machine_without_kerberos_goes_on_and_says_what_is_not_tested(machine: Path) -> None:
    status, told = setup(machine, "kerberos", "folder")
    assert status == 0
    assert "Kerberos is not tested here: that needs krb5-kdc krb5-admin-server libkrb5-dev" in told


def test_root_on_debian_gets_a_kdc_and_what_the_library_is_built_with(machine: Path) -> None:
    become_debian_root(machine)
    status, told = setup(machine, "kerberos", "folder")
    assert status == 0
    packages = "krb5-kdc krb5-admin-server libkrb5-dev gcc python3-dev"
    assert told.startswith(SAID.format(packages))
    assert (machine / "calls").read_text().endswith(f"{packages}\n")
