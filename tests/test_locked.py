"""What installs take (kipctl/locked*.txt) is what is tested: the same versions, each hashed."""

import re
import tomllib
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[1]
_LOCKED = re.compile(r"([\w-]+)==([\w.]+)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)\n")


LOCKED = ["locked.txt", "locked-msk.txt", "locked-spark.txt"]
LOCKED += ["locked-kerberos.txt"] if find_spec("gssapi") else []  # not every machine can build it


@pytest.fixture(params=LOCKED)
def lock(request: pytest.FixtureRequest) -> tuple[dict[str, str], str]:
    """The version of each package, and the extra; the file holds nothing else but comments, and
    that of an extra begins with all that kipctl needs."""
    name: str = request.param
    extra = name.removeprefix("locked").strip("-").removesuffix(".txt")
    text = re.sub(r"(?m)^#.*\n", "", (REPOSITORY / "kipctl" / name).read_text())
    if extra:
        of_all = re.sub(r"(?m)^#.*\n", "", (REPOSITORY / "kipctl" / "locked.txt").read_text())
        assert text.startswith("-r locked.txt\n")
        text = text.replace("-r locked.txt\n", of_all)
    assert _LOCKED.sub("", text) == ""
    named = [name for name, _, _ in _LOCKED.findall(text)]
    assert len(named) == len({*named})
    return {name: version for name, version, _ in _LOCKED.findall(text)}, extra


Lock = tuple[dict[str, str], str]


def test_the_locked_versions_are_those_of_the_constraints_and_those_installed_here(
    lock: Lock,
) -> None:
    versions, _ = lock
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    constraints = dict(line.split("==") for line in lines)
    assert versions.items() <= {canonicalize_name(n): v for n, v in constraints.items()}.items()
    assert versions == {name: distribution(name).version for name in versions}


def test_all_that_kipctl_needs_is_locked_and_nothing_else(lock: Lock) -> None:
    versions, extra = lock
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"].get(extra, ())]
    needed: set[str] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in needed:
            needed.add(name)
            wanted += distribution(name).requires or ()
    assert versions.keys() == needed


def test_each_documented_install_takes_what_is_locked() -> None:
    pages = (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"))
    installs = re.findall(
        r"(?:pipx install|pip install|uv tool install|uvx) [^`\n]*(?:\\\n[^`\n]*)*",
        "\n".join(page.read_text() for page in pages),
    )
    assert len(installs) >= 4
    is_locked = re.compile(r"-[cr] (\$PWD/)?kipctl/locked(-\w+)?\.txt|--no-deps|-e '\.\[bench\]'")
    assert [install for install in installs if not is_locked.search(install)] == []
