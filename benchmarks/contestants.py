"""Clients that kipctl is compared with: how their processes are started and what they cost."""

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


def run(command: str, checkout: Path | None = None) -> tuple[str, float]:
    """Run a client to its end; returns its stdout and its CPU seconds (with its children's).

    `python -m kipctl` is that of `checkout`, a work tree of another commit, if there is one.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            shlex.split(command), stdout=out, stderr=errors, cwd=checkout or HERE.parent
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{command} failed: {errors.read()[-2000:]}")
        out.seek(0)
        return out.read(), usage.ru_utime + usage.ru_stime


@cache
def franz_go() -> Path | None:
    """The program of `franz_go`, built here; None, and a line to say so, without Go."""
    go = shutil.which("go")
    if go is None:
        sys.stderr.write("There is no Go toolchain: franz-go is left out.\n")
        return None
    folder = tempfile.mkdtemp(prefix="kipctl-franz-go-")
    atexit.register(shutil.rmtree, folder)
    program = Path(folder) / "client"
    subprocess.run([go, "build", "-o", program, "."], cwd=HERE / "franz_go", check=True)
    return program
