"""Give what reads what nobody should write: `python tests/fuzz --minutes 60`."""

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from urllib.parse import quote, unquote

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.extend(map(str, Path(__file__).parents[1].glob("*/")))

from fuzzing import Fault, Reader, Tally, fault_in, fuzz
from loopback_only import loopback_only
from targets import TARGETS

_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
_AT_ONCE = 20
"""Cases between two looks at the clock."""


@contextmanager
def _opened(name: str) -> Iterator[Mapping[str, Reader]]:
    """The readers of a target; what is kept between runs is not the user's own."""
    with TemporaryDirectory(prefix="kipctl-fuzz-") as folder:
        for home in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "KIPCTL_LOCK_FOLDER", "target"):
            (Path(folder) / home).mkdir()
            os.environ[home] = str(Path(folder) / home)
        with loopback_only(), TARGETS[name](Path(folder) / "target") as readers:
            yield readers


def _in_a_process(*arguments: Any) -> int:
    """Of its own: so its peak of memory is a target's own."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(_fuzz, *arguments).result()


def _fuzz(name: str, options: argparse.Namespace, seconds: float, keep: Path) -> int:
    """Fuzz a target for a while; returns how much was found."""
    tally, number, until = Tally(), options.first, time.monotonic() + seconds
    with _opened(name) as readers:
        while time.monotonic() < until:
            fuzz(name, readers, options.seed, range(number, number + _AT_ONCE), tally)
            number += _AT_ONCE
    took_s, slowest, case = tally.slowest
    peak = max(resource.getrusage(who).ru_maxrss for who in _WHO)
    print(
        f"{name}: {tally.cases:,} cases, {dict(tally.ends)}; the longest took {took_s:.2f} s"
        f" ({slowest}, case {case}); peak memory {peak >> 10} MiB",
        flush=True,
    )
    for finding in tally.failures.values():
        path = keep / quote(f"{name},{finding.reader},{finding.case}")
        path.write_bytes(finding.content)
        print(
            f"FOUND by {name}, {finding.reader}, seed {options.seed}, case {finding.case}:"
            f" {finding.fault.what}\n{finding.fault.trace}"
            f"{len(finding.content)} bytes: {finding.content[:200]!r}\n"
            f"Again: python tests/fuzz --again {path}\n",
            flush=True,
        )
    return len(tally.failures)


def _again(path: Path) -> int:
    """Read once more what led to a fault."""
    target, name, _ = unquote(path.name).split(",")
    with _opened(target) as readers:
        reader = readers[name]
        end = fault_in(reader, path.read_bytes(), is_measured=bool(reader.memory))
    print(f"{end.what}\n{end.trace}" if isinstance(end, Fault) else end)
    return isinstance(end, Fault)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for all targets together")
    parser.add_argument("--seed", default=str(Random().randrange(10**6)))
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--target", action="append", choices=[*TARGETS], help="repeatable")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--again", type=Path, help="a file of something that was found")
    options = parser.parse_args()
    if options.again:
        raise SystemExit(_again(options.again))
    names = options.target or [*TARGETS]
    keep = Path(mkdtemp(prefix="kipctl-found-"))
    seconds = 60 * options.minutes / len(names) * options.processes
    print(f"seed {options.seed}; what is found goes to {keep}", flush=True)
    with ThreadPoolExecutor(options.processes) as at_once:
        faults = sum(at_once.map(lambda name: _in_a_process(name, options, seconds, keep), names))
    raise SystemExit(faults > 0)


if __name__ == "__main__":
    main()
