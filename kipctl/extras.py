"""The part of kipctl that is installed when asked for: `kipctl[spark]`, and how to get it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from kipctl.errors import UsageError

MODULES = frozenset({"matplotlib", "py4j", "pyspark"})
"""What `kipctl[spark]` brings, by the names that are imported."""
LOCKED = Path(__file__).with_name("locked-spark.txt")
"""The versions that kipctl[spark] was tested with, and the SHA-256 of their files."""


def require(module: str, what: str, otherwise: str = "") -> None:
    """Raise UsageError unless this module is there; for what imports it only later on.

    `what` needs it; `otherwise` says how to do without.
    """
    if find_spec(module) is None:
        raise _missing(module, what, otherwise)


@contextmanager
def required_when_imported() -> Iterator[None]:
    """An import in the block of what only `kipctl[spark]` brings becomes a UsageError."""
    try:
        yield
    except ModuleNotFoundError as absent:
        module = (absent.name or "").partition(".")[0]
        if module not in MODULES:
            raise
        raise _missing(module, "This command") from absent


def _missing(module: str, what: str, otherwise: str = "") -> UsageError:
    return UsageError(
        f"{what} needs {module}, which is not installed: it comes with kipctl[spark], half a "
        "gigabyte that most commands do without.",
        f"Install it: {command_to_install()}" + (f"\nOr {otherwise}." if otherwise else ""),
    )


def command_to_install() -> str:
    """The command that adds `kipctl[spark]` to this kipctl, with the tool that installed it.

    Where the wheel's SHA-256 is known, so that pip takes hashes of others, it adds what was tested.
    """
    import shlex

    requirement = _requirement()
    is_locked = "#sha256=" in requirement
    requirement, lock = shlex.quote(requirement), shlex.quote(str(LOCKED))
    of_pip, of_others = (f"-r {lock} ", f"-c {lock} ") if is_locked else ("", "")
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        arguments = f"--pip-args={shlex.quote(of_others.strip())} " if is_locked else ""
        return f"pipx install --force {arguments}{requirement}"
    if (prefix / "uv-receipt.toml").exists():
        return f"uv tool install {of_others}{requirement}"
    if prefix.parent.name.startswith("archive-v"):  # in uv's cache, for one call
        return f"uvx {of_others}--from {requirement} kipctl ..."
    if find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(sys.prefix)} {of_others}{requirement}"
    return f"{shlex.quote(sys.executable)} -m pip install {of_pip}{requirement}"


def _requirement() -> str:
    """By the address that kipctl was installed from, if that was no package index (PEP 610).

    With the SHA-256 of the file there, which pip keeps beside the address and uv in it.
    """
    import json
    from importlib.metadata import distribution

    text = distribution("kipctl").read_text("direct_url.json")
    if not text:
        return "kipctl[spark]"
    origin = json.loads(text)
    address, kept = origin["url"], origin.get("archive_info", {}).get("hashes", {})
    if "sha256" in kept and "#" not in address:
        address += f"#sha256={kept['sha256']}"
    return f"kipctl[spark] @ {address}"
