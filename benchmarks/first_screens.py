"""The first screen of every command, on terminals of 80 by 24 and 120 by 40, as a Markdown table.

    python benchmarks/first_screens.py [--long] [--show DIR] [--checkout PATH] [--only WORDS]

Every command of kipctl runs on a lab of its own, under a pseudo-terminal and with NO_COLOR; one
that is not in SCREENS ends the benchmark with an error. Of each screen: its first line, whether
that is a sentence, how many lines there are, how wide the widest table is, and how many of its
lines go on with a row that the line before began. `--show` keeps the screens as text, `--checkout`
runs the kipctl of another folder, to compare; `--long` adds the experiments and the demo.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

SIZES = ((80, 24), (120, 40))
TIMEOUT_S = 900
REQUEST_LOG = Path(__file__).parent / "data" / "request.log.gz"
LOAD = "--num-records 6000 --throughput 1500 --yes"
SCREENS = (
    "",
    "lab up",
    "lab status",
    "clusters add here --bootstrap-server {servers}",
    "clusters list",
    "clusters show here",
    "clusters test here --topic orders",
    "wait --until in-sync,preferred",
    "inspect leaders --topic orders",
    "inspect hints --topic orders",
    "inspect brokers",
    "explain",
    "explain under-min-isr",
    "inspect metadata --topic orders",
    "inspect replica-selection --topic orders --client-rack rack-1",
    "reassign --rotate",
    "reassign --rotate --topic orders --dry-run",
    "reassign --rotate --topic orders --yes",
    "undo --yes",
    "reassign --leaders-off 3 --yes",
    "reassign --drain 3 --dry-run",
    "changes list",
    "reassign --list",
    "reassign --plan {plan} --dry-run",
    "reassign --verify {plan}",
    "elect preferred --topic orders --dry-run",
    "elect preferred --topic orders --yes",
    "elect unclean --partition orders:3 --dry-run",
    "perf produce --during rotate --every 2 --record before " + LOAD,
    "perf produce --during rotate --every 2 --record after " + LOAD,
    "perf produce --topic orders --force --record stays " + LOAD,
    "perf consume --topic orders --num-records 6000 --timeout 5000 --record read",
    "perf e2e --during rotate --every 2 " + LOAD,
    "perf metadata --topics 10 --yes",
    "tap --listen 127.0.0.1:0 --for 2s",
    "request-log on --broker 1 --for 2s --yes",
    "request-log status",
    "request-log off --broker 1",
    "spark start",
    "spark status",
    "analyze before",
    "analyze runs before --by broker",
    "analyze request-log {request_log}",
    "runs list",
    "runs show before",
    "runs compare before after",
    "runs repair before",
    "report before --html {folder}/page.html",
    "spark stop",
    "runs export before {folder}/before.tar.gz",
    "runs remove after --yes",
    "roll --dry-run",
    "roll --lab --broker 1 --yes",
    "lab stop 2",
    "lab start 2",
    "lab restart 2",
    "lab pause 2",
    "lab resume 2",
    "lab logs 2 --lines 3",
    "lab down",
)
LONG = (
    "experiment redirect --quick",
    "experiment roll --quick",
    "experiment closest-replica --quick",
    "experiment batch --quick",
    "experiment metadata --quick",
    "demo",
)
LEAVES = """
import json
from kipctl.generate.commands import command_tree
print(json.dumps([c.name.partition(" ")[2] for c in command_tree().walk() if not c.commands]))
"""
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
RULE = re.compile(r"[╭├]?(─+)[─ ┬┼╮┤]*")
"""The line under a table's headings; its first part is as wide as the first column."""


@dataclass(frozen=True)
class Screen:
    """What a command printed to stdout, without colours, on a terminal of so many columns."""

    command: str
    columns: int
    status: int
    text: str
    messages: str

    @property
    def lines(self) -> list[str]:
        """Of stdout; of a command that prints nothing there, its last message."""
        shown = self.text or self.messages.rstrip("\n").rpartition("\n")[2]
        return shown.rstrip("\n").split("\n")

    @property
    def first(self) -> str:
        """The first sentence, or the first line if that is none."""
        begin, *others = self.lines
        for other in others:
            if begin.endswith((".", ":")) or not other.strip() or other[0] in " ╭─":
                break
            if len(begin) + len(other.split(" ")[0]) < self.columns:
                break  # The line did not end for want of room.
            begin += " " + other
        return " ".join(begin.split())

    @property
    def widest(self) -> int:
        """Columns of the widest table; other lines are broken between words, or to be copied."""
        return max((len(line) for line in self.lines if RULE.fullmatch(line)), default=0)

    @property
    def wrapped(self) -> int:
        """Lines of tables that go on with a row."""
        count = width = 0
        for line in self.lines:
            if rule := RULE.fullmatch(line):
                width = len(rule[1])
            elif not line or line[0] == "╰":
                width = 0
            elif width:
                count += not line.strip("│")[:width].strip() and bool(line.strip("│ "))
        return count

    def row(self) -> str:
        shown = self.first if len(self.first) < 100 else f"{self.first[:97]}..."
        return " | ".join(
            (
                f"| `{f'kipctl {self.command}'.strip()}`",
                str(self.columns),
                shown.replace("|", r"\|"),
                "yes" if self.first.endswith(".") and " " in self.first else "no",
                str(len(self.lines)),
                f"{self.widest or '-'}{', too wide' if self.widest > self.columns else ''}",
                f"{self.wrapped or '-'} |",
            )
        )


def drained(descriptor: int, into: list[bytes]) -> threading.Thread:
    """Read a terminal until nobody holds its other end."""

    def read() -> None:
        try:
            while block := os.read(descriptor, 65536):
                into.append(block)
        except OSError:  # Linux says EIO at the end.
            pass
        os.close(descriptor)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def ran(command: str, words: list[str], size: tuple[int, int], env: Mapping[str, str]) -> Screen:
    """Run kipctl with these words; stdout and stderr are terminals, and apart."""
    pairs = [pty.openpty() for _ in range(2)]
    for _, inner in pairs:
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    read: tuple[list[bytes], list[bytes]] = ([], [])
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kipctl", *words],
        stdin=subprocess.DEVNULL,
        stdout=pairs[0][1],
        stderr=pairs[1][1],
        env=env,
        start_new_session=True,
    )
    for _, inner in pairs:
        os.close(inner)
    threads = [drained(outer, into) for (outer, _), into in zip(pairs, read, strict=True)]
    try:
        status = process.wait(TIMEOUT_S)
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        raise
    for thread in threads:
        # A broker that the command started holds no terminal: its streams are files.
        thread.join(30)
    out, errors = (STYLE.sub("", b"".join(blocks).decode(errors="replace")) for blocks in read)
    return Screen(command, size[0], status, out, errors)


def screens(
    commands: tuple[str, ...], size: tuple[int, int], env: Mapping[str, str], folder: Path
) -> Iterator[Screen]:
    """One after the other on a lab that the first of them starts."""
    plan = folder / "plan.json"
    words = {"folder": folder, "plan": plan, "request_log": REQUEST_LOG, "servers": ""}
    for command in commands:
        yield ran(command, command.format(**words).split(), size, env)
        if command == "lab up":
            status = json.loads(out_of(["lab", "status", "--output", "json"], env))
            words["servers"] = status["labs"][0]["bootstrap_server"]
            topics = {"orders": 12, "payments": 30}
            admin = AdminClient({"bootstrap.servers": words["servers"], "log_level": 0})
            for made in admin.create_topics(
                [NewTopic(name, count, 2) for name, count in topics.items()]
            ).values():
                made.result(30)
            move = ["reassign", "--drain", "3", "--topic", "orders", "--dry-run", "-o", "json"]
            plan.write_text(out_of(move, env))


def out_of(words: list[str], env: Mapping[str, str]) -> str:
    return subprocess.run(
        [sys.executable, "-P", "-m", "kipctl", *words],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    ).stdout


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--long", action="store_true")
    options.add_argument("--show", type=Path, metavar="DIR")
    options.add_argument("--checkout", type=Path, default=Path(__file__).parents[1])
    options.add_argument("--only", default="", help="commands that begin so, besides `lab up`")
    chosen = options.parse_args()
    code = {"PYTHONPATH": str(chosen.checkout.absolute())}
    shown = SCREENS[:-1] + (LONG if chosen.long else ()) + SCREENS[-1:]
    listing = subprocess.run(
        [sys.executable, "-P", "-c", LEAVES],
        env=os.environ | code,
        stdout=subprocess.PIPE,
        check=True,
    )
    for leaf in json.loads(listing.stdout):
        if not any(f"{line} ".startswith(f"{leaf} ") for line in (*SCREENS, *LONG)):
            raise SystemExit(f"`kipctl {leaf}` is not in SCREENS.")
    if chosen.only:
        shown = tuple(
            line for line in shown if line in ("lab up", "lab down") or line.startswith(chosen.only)
        )
    print(
        "| command | columns | first line | a sentence | lines | widest table | lines within rows |"
    )
    print("|---|---|---|---|---|---|---|")
    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="kipctl-screens-") as text:
            own = {f"XDG_{name}_HOME": f"{text}/{name}" for name in ("STATE", "CONFIG")}
            env = os.environ | code | own | {"NO_COLOR": "1", "TERM": "xterm"}
            for name in ("COLUMNS", "LINES", "KIPCTL_BOOTSTRAP_SERVER", "KIPCTL_CLUSTER"):
                env.pop(name, None)
            try:
                for number, screen in enumerate(screens(shown, size, env, Path(text))):
                    print(screen.row(), flush=True)
                    if screen.status:
                        last = screen.messages.strip().splitlines()[-3:]
                        print(f"{screen.command}: status {screen.status}", *last, file=sys.stderr)
                    if chosen.show:
                        chosen.show.mkdir(parents=True, exist_ok=True)
                        name = re.sub(r"\W+", "-", screen.command)[:40] or "alone"
                        (chosen.show / f"{size[0]:03}-{number:02}-{name}.txt").write_text(
                            f"$ kipctl {screen.command}\n{screen.text}"
                            f"\n=== stderr, status {screen.status}\n{screen.messages}"
                        )
            finally:
                for words in (["lab", "down"], ["spark", "stop"]):
                    subprocess.run(
                        [sys.executable, "-P", "-m", "kipctl", *words],
                        env=env,
                        capture_output=True,
                        timeout=TIMEOUT_S,
                        check=False,
                    )


if __name__ == "__main__":
    main()
