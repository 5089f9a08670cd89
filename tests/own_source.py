"""kipctl's own source, of which each file is parsed once in a process."""

import ast
from functools import cache
from pathlib import Path

import kipctl

ROOT = Path(kipctl.__file__).parent
FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


@cache
def parsed(file: Path) -> ast.Module:
    """A file of FILES."""
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))
