"""Whether the screen that `kipctl perf produce` draws disturbs what it measures.

    python benchmarks/live_screen.py [--pairs 8] [--records 20000] [--throughput 2000]

On a lab of 3 brokers the same load runs twice a pair, in turn first: drawn on a pseudo-terminal of
120 by 40 that is read, and with messages thrown away. Ratios are of the two runs of
one pair, drawn to not drawn: their median, and the least and the most of them. A pair of runs that
are both not drawn, as often, shows how much two equal runs differ on this machine.
"""

import argparse
import fcntl
import json
import os
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

MEASURES = ("p50", "p99", "p999", "CPU")
SIZE = struct.pack("HHHH", 40, 120, 0, 0)


def kipctl(words: Sequence[str], environment: Mapping[str, str], stderr: int) -> Any:
    """The document of a command; ends the program when it fails."""
    command = [sys.executable, "-m", "kipctl", *words]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, env=dict(environment))
    if ran.returncode:
        raise SystemExit(f"kipctl {' '.join(words)} ended with {ran.returncode}.")
    return json.loads(ran.stdout) if "json" in words else None


def drawn(words: Sequence[str], environment: Mapping[str, str]) -> tuple[Any, int]:
    """The document of a command that draws on a terminal, and how many bytes it drew."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, SIZE)
    counted = [0]

    def read() -> None:
        with suppress(OSError):  # the terminal is closed
            while some := os.read(controller, 65536):
                counted[0] += len(some)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        document = kipctl(words, {**environment, "TERM": "xterm-256color"}, terminal)
    finally:
        os.close(terminal)
        reader.join()
        os.close(controller)
    return document, counted[0]


def figures(document: Any) -> dict[str, float]:
    """What is compared, by MEASURES: milliseconds and CPU seconds."""
    latency = document["latency_ms"]
    return {name: latency[name] for name in MEASURES[:-1]} | {"CPU": document["cpu_seconds"]}


def main() -> None:
    """Run the pairs, and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--throughput", type=int, default=2_000)
    given = parser.parse_args()
    load = f"perf produce --num-records {given.records} --throughput {given.throughput} -o json"
    with tempfile.TemporaryDirectory() as state, open(os.devnull, "wb") as nowhere:
        environment = os.environ | {"XDG_STATE_HOME": state}
        environment.pop("KIPCTL_BOOTSTRAP_SERVER", None)
        quiet = nowhere.fileno()
        kipctl(["lab", "up"], environment, quiet)
        try:
            kipctl(load.split(), environment, quiet)  # warms the brokers up
            ratios: dict[str, list[dict[str, float]]] = {"drawn": [], "equal": []}
            for number in range(2 * given.pairs):
                pair = "drawn" if number % 2 else "equal"
                runs = []
                for is_second in (False, True) if number % 4 < 2 else (True, False):
                    if is_second and pair == "drawn":
                        document, size = drawn(load.split(), environment)
                        if not size:
                            raise SystemExit("Nothing was drawn.")
                    else:
                        document = kipctl(load.split(), environment, quiet)
                    runs.append((is_second, figures(document)))
                (_, plain), (_, other) = sorted(runs, key=lambda run: run[0])
                ratios[pair].append({name: other[name] / plain[name] for name in MEASURES})
                print(f"{pair} {number // 2 + 1}: {ratios[pair][-1]}", file=sys.stderr)
        finally:
            kipctl(["lab", "down"], environment, quiet)
    print("| pair | " + " | ".join(MEASURES) + " |")
    print("| --- |" + " --- |" * len(MEASURES))
    for pair, all_of in ratios.items():
        cells = []
        for name in MEASURES:
            values = [comparison[name] for comparison in all_of]
            middle = statistics.median(values)
            cells.append(f"{middle:.2f} ({min(values):.2f} to {max(values):.2f})")
        print(f"| {pair} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
