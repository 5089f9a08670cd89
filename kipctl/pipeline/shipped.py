"""kipctl itself, as executors are sent it."""

import zipfile
from pathlib import Path

import kipctl


def packed(folder: Path) -> Path:
    """An archive in the folder that executors can import kipctl from."""
    archive = folder / "kipctl.zip"
    package = Path(kipctl.__file__).parent
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for source in sorted(package.rglob("*.py")):
            written.write(source, source.relative_to(package.parent))
    return archive
