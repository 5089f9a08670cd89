"""The parts of kipctl that are installed when asked for, such as `kipctl[spark]`, and how."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from kipctl.errors import UsageError

_SPARK = frozenset({"matplotlib", "py4j", "pyspark"})
MODULES = {
    "kerberos": frozenset({"gssapi"}),
    "msk": frozenset({"aws_msk_iam_sasl_signer"}),
    "spark": _SPARK,
    "connect": _SPARK | {"grpc", "grpc_status", "pandas", "zstandard"},
}
"""What each extra brings, by the names that are imported."""
_NOTES = {
    "connect": ", and kipctl[spark] with it",
    "kerberos": ", and is built by a C compiler with Kerberos' headers (Debian: libkrb5-dev, gcc,"
    " python3-dev)",
    "spark": ", half a gigabyte that most commands do without",
}


def locked(extra: str) -> Path:
    """The versions that kipctl with this extra was tested with, and the SHA-256 of their files."""
    return Path(__file__).with_name(f"locked-{extra}.txt")


def require(module: str, what: str, otherwise: str = "") -> None:
    """Raise UsageError unless this module is there; for what imports it only later on.

    `what` needs it; `otherwise` says how to do without.
    """
    if find_spec(module) is None:
        raise _missing(module, what, otherwise)


@contextmanager
def required_when_imported() -> Iterator[None]:
    """An import in the block of what only an extra brings becomes a UsageError."""
    try:
        yield
    except ModuleNotFoundError as absent:
        module = (absent.name or "").partition(".")[0]
        if not any(module in modules for modules in MODULES.values()):
            raise
        raise _missing(module, "This command") from absent


def _missing(module: str, what: str, otherwise: str = "") -> UsageError:
    extra = next(extra for extra, modules in MODULES.items() if module in modules)
    return UsageError(
        f"{what} needs {module}, which is not installed: it comes with kipctl[{extra}]"
        f"{_NOTES.get(extra, '')}.",
        f"Install it: {command_to_install(extra)}" + (f"\nOr {otherwise}." if otherwise else ""),
    )


def command_to_install(extra: str) -> str:
    """The command that adds `kipctl[EXTRA]` to this kipctl, with the tool that installed it.

    Where the wheel's SHA-256 is known, so that pip takes hashes of others, it adds what was tested.
    Tools that make kipctl's environment anew are told of the extras that are there, too.
    """
    import shlex

    extras = sorted({extra, *_installed()})
    requirement = _requirement(",".join(extras))
    is_locked = "#sha256=" in requirement
    requirement, locks = shlex.quote(requirement), [shlex.quote(str(locked(e))) for e in extras]
    of_pip, of_others = (
        "".join(f"{option} {lock} " for lock in locks if is_locked) for option in ("-r", "-c")
    )
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


def _installed() -> set[str]:
    """The extras that are there."""
    return {extra for extra, modules in MODULES.items() if all(map(find_spec, modules))}


def _requirement(extras: str) -> str:
    """By the address that kipctl was installed from, if that was no package index (PEP 610).

    With the SHA-256 of the file there, which pip keeps beside the address and uv in it.
    """
    import json
    from importlib.metadata import distribution

    text = distribution("kipctl").read_text("direct_url.json")
    if not text:
        return f"kipctl[{extras}]"
    origin = json.loads(text)
    address, kept = origin["url"], origin.get("archive_info", {}).get("hashes", {})
    if "sha256" in kept and "#" not in address:
        address += f"#sha256={kept['sha256']}"
    return f"kipctl[{extras}] @ {address}"
