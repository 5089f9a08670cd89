"""What the repository promises: exact versions, no registry hosts, no machine's own paths."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from own_source import FILES, parsed

REPOSITORY = Path(__file__).parents[1]
NAMELESS = {"one", "ones", "found", "of", "together"}
FOLDERS = ("kipctl", "tests", "docs", "man", "completions", "benchmarks", ".ci")


def texts() -> Iterator[tuple[str, str]]:
    """Each file that belongs to the repository, with its text."""
    # In a second work tree .git is a file, which says where the first one is.
    files = [path for path in REPOSITORY.iterdir() if path.is_file() and path.name != ".git"]
    for folder in FOLDERS:
        files += [path for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    for path in files:
        if path.suffix in {
            "",
            ".py",
            ".md",
            ".toml",
            ".txt",
            ".json",
            ".csv",
            ".1",
            ".bash",
            ".fish",
        }:
            yield path.relative_to(REPOSITORY).as_posix(), path.read_text()


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_no_registry_host_is_named() -> None:
    hosts = re.compile("|".join((r"repo1?\.maven", r"pypi\.(org|io)", "pythonhosted", "sonatype")))
    assert [
        path for path, text in texts() if path != "tests/test_house.py" and hosts.search(text)
    ] == []


def test_no_path_of_one_machine_is_named() -> None:
    homes = re.compile(r"(?<![\w.])/(work|root|home/\w+|Users/\w+|tmp/\w+)/")
    assert [
        path for path, text in texts() if path != "tests/test_house.py" and homes.search(text)
    ] == []


def test_each_place_that_the_pages_for_engineers_name_exists() -> None:
    named = re.compile(r"`([\w./]+(?:\.(?:py|md|toml)|/))`")
    for page in ("CONTRIBUTING.md", "docs/glossary.md", "docs/architecture.md"):
        names = named.findall((REPOSITORY / page).read_text())
        roots = [REPOSITORY, REPOSITORY / "kipctl", REPOSITORY / "kipctl" / "probe"]
        roots += [REPOSITORY / "kipctl" / "changes", REPOSITORY / "tests"]
        lost = [name for name in names if not any((root / name).exists() for root in roots)]
        assert lost == [], page


def test_the_first_page_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 150


def test_each_link_between_pages_leads_somewhere() -> None:
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "CHANGELOG.md"]
    for page in (*pages, *(REPOSITORY / "docs").rglob("*.md")):
        for target, section in re.findall(
            r"\]\(((?!https?:)[^)#\s]*)(#[^)\s]*)?\)", page.read_text()
        ):
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name}: {target}"
            if section and there.suffix == ".md":
                assert section[1:] in sections(there), f"{page.name}: {target}{section}"


def sections(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def names_in(path: Path) -> set[str]:
    """The tests of a file, a test of a class as `Class::test`."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = (member.name for member in node.body if isinstance(member, ast.FunctionDef))
            names.update(f"{node.name}::{name}" for name in methods)
    return names


def test_each_fault_names_tests_that_are_there() -> None:
    lines = (REPOSITORY / "docs" / "faults.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| fault ")]
    assert len(rows) > 50
    without = [row for row in rows if not re.search(r"`tests/[\w/]+\.py::[\w:]+` ?", row)]
    assert without == []
    named = {
        (path, name)
        for row in rows
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", row)
    }
    missing = sorted(
        f"{path}::{name}"
        for path, name in named
        if not (REPOSITORY / path).is_file() or name not in names_in(REPOSITORY / path)
    )
    assert missing == []
    assert all(name.split("::")[-1].startswith("test_") for _, name in named)


def written_to(tree: ast.AST) -> Iterator[str]:
    """What a module writes to, or draws on, that is no stream of an `Environment`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name("sys"), "stdout" | "stderr" | "__stdout__" | "__stderr__"):
                yield f"sys.{node.attr}"
            case ast.Call(ast.Name("Console") | ast.Attribute(_, "echo" | "secho")):
                yield ast.unparse(node.func)
            case ast.Call(ast.Name("print") | ast.Attribute(_, "print_exc")):
                if "file" not in [keyword.arg for keyword in node.keywords]:
                    yield ast.unparse(node.func)


def test_whatever_is_written_goes_through_the_streams_of_the_environment() -> None:
    """They make printable what came from outside (kipctl/report/terminal.py)."""
    written = {
        (f"kipctl/{file.as_posix()}", what) for file in FILES for what in written_to(parsed(file))
    }
    assert written == {
        ("kipctl/cli/streams.py", "sys.stdout"),
        ("kipctl/cli/streams.py", "sys.stderr"),
        ("kipctl/pipeline/holder.py", "sys.stderr"),  # a log of its own
        ("kipctl/load/presets/programs/python/driver.py", "print"),  # a program of its own
    }


def nameless(file: Path) -> Iterator[str]:
    """Variables and parameters with a name that fits anything; fields are known by their class."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {
        item.target for cls in classes for item in cls.body if isinstance(item, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        name = node.arg if isinstance(node, ast.arg) else None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            name = node.id
        if name in NAMELESS:
            yield f"{file.relative_to(REPOSITORY)}:{node.lineno} {name}"


def test_variables_are_called_what_they_hold() -> None:
    folders = ("kipctl", "tests", "benchmarks")
    files = [file for folder in folders for file in (REPOSITORY / folder).rglob("*.py")]
    assert [place for file in sorted(files) for place in nameless(file)] == []


@cache
def defined(module: str) -> set[str]:
    """What a module of kipctl has under a name, and a package's modules."""
    path = Path(*module.split(".")[1:])
    names = {file.stem for file in FILES if file.parent == path}
    file = path / "__init__.py" if names else path.with_suffix(".py")
    for node in ast.walk(parsed(file)):
        match node:
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.Name(name, ast.Store()):
                names.add(name)
            case ast.alias(name, asname):
                names.add(asname or name)
    return names


def test_what_benchmarks_take_from_kipctl_is_there() -> None:
    """They are not run here, and mypy does not read them."""
    files = sorted((REPOSITORY / "benchmarks").glob("*.py"))
    missing = {
        (file.name, node.module, name.name)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kipctl"
        for name in node.names
        if name.name not in defined(node.module or "")
    }
    assert missing == set()
