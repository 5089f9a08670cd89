"""The part of kipctl that is installed when asked for: `kipctl[spark]`, and how to get it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from kipctl.errors import UsageError

MODULES = frozenset({"matplotlib", "py4j", "pyspark"})
"""What `kipctl[spark]` brings, by the names that are imported."""


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
    """The command that adds `kipctl[spark]` to this kipctl, with the tool that installed it."""
    import shlex

    requirement = shlex.quote(_requirement())
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx install --force {requirement}"
    if (prefix / "uv-receipt.toml").exists():
        return f"uv tool install {requirement}"
    if prefix.parent.name.startswith("archive-v"):  # in uv's cache, for one call
        return f"uvx --from {requirement} kipctl ..."
    if find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(sys.prefix)} {requirement}"
    return f"{shlex.quote(sys.executable)} -m pip install {requirement}"


def _requirement() -> str:
    """By the address that kipctl was installed from, if that was no package index (PEP 610)."""
    import json
    from importlib.metadata import distribution

    origin = distribution("kipctl").read_text("direct_url.json")
    return f"kipctl[spark] @ {json.loads(origin)['url']}" if origin else "kipctl[spark]"
