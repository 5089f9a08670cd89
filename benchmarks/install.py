"""What installing kipctl takes on disk, package by package, without and with its extras.

    python benchmarks/install.py

The wheel of this checkout is made, and installed as README says into new environments, with what
is locked: as `kipctl`, and with each extra alone; all are asked for their version. Sizes are
of the files that each package lists, 10^6 bytes, without the bytecode that pip adds. Jars of Kafka
are those that labs have fetched on this machine.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from kipctl.extras import MODULES, locked
from kipctl.lab.ivy import cache_folder

REPOSITORY = Path(__file__).parents[1]
SHOWN_MB = 3.0
SIZES = """
from importlib.metadata import distributions
for one in distributions():
    paths = [file.locate() for file in one.files or () if file.suffix != ".pyc"]
    print(one.name, sum(path.stat().st_size for path in paths if path.exists()))
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kipctl-install-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, REPOSITORY], check=True)
        (wheel,) = folder.glob("kipctl-*.whl")
        print(f"The wheel: {_mb(wheel.stat().st_size)} MB.")
        locks = {"": "locked.txt"} | {f"[{extra}]": locked(extra).name for extra in MODULES}
        for extra, lock in locks.items():
            place = folder / f"with{extra}"
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
            install = [*pip, "--python", place / "bin" / "python", "install", "--no-compile"]
            hashes = ["--require-hashes", "-r", REPOSITORY / "kipctl" / lock]
            subprocess.run([*install, *hashes], check=True)
            subprocess.run([*install, "--no-deps", wheel], check=True)
            _show(f"kipctl{extra}", place / "bin")
    for jars in sorted(cache_folder().glob("*/jars")):
        size = sum(path.stat().st_size for path in jars.parent.rglob("*") if path.is_file())
        print(f"Jars of {jars.parent.name}, with what makes them start fast: {_mb(size)} MB.")


def _show(title: str, programs: Path) -> None:
    version = subprocess.check_output([programs / "kipctl", "--version"], text=True).strip()
    lines = subprocess.check_output([programs / "python", "-c", SIZES], text=True).splitlines()
    sizes = {name: int(size) for name, size in map(str.split, lines)}
    large = {name: size for name, size in sizes.items() if size >= SHOWN_MB * 1e6}
    by_size = sorted(large.items(), key=lambda package: -package[1])
    listed = [f"{name} {_mb(size)}" for name, size in by_size]
    others = sum(sizes.values()) - sum(large.values())
    print(f"{title} ({version}): {_mb(sum(sizes.values()))} MB in {len(sizes)} packages.")
    print(f"  {', '.join(listed)}, others {_mb(others)}")


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f}" if size >= 10e6 else f"{size / 1e6:.1f}"


if __name__ == "__main__":
    main()
