"""What a page types, run: kipctl in one process for all commands, a tap in one of its own."""

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from one_process import OneProcess, Said

from kipctl.lab.ports import first_of_free_ports

SHORT = {"perf produce": ["--num-records", "500", "--throughput", "100", "--every", "1.5s"]}
"""What is added to commands that take their time, where the page leaves that to the default."""

SHORTER = {"--for 5s": "--for 2s"}
"""What is typed instead of what a page says."""

ONCE = {"kipctl analyze request-log logs"}
"""What several pages type of the logs of the same clients, and Spark takes its time for: the first
that types it runs it, and what is printed is compared with what each of them says."""

TAP = "127.0.0.1:9192"
"""Where a tap listens on the pages; here at a port that is free, with those after it."""


@dataclass
class Shell:
    """Call it with a line; it returns what was printed, to stdout and to stderr.

    Known are `kipctl ...`, `printf TEXT`, both also with `> FILE`, `echo $?`, `sleep N`,
    `kipctl ... &`, which has begun once it has said something, and `kill %1; wait`, which ends
    that. Anything else raises ValueError. What pages name by the `names` is another thing here.
    """

    kipctl: OneProcess
    variables: dict[str, str]
    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    shortens: bool = True
    printed_once: dict[str, Said] = field(default_factory=dict)
    """Of ONCE, for the shells of all pages."""
    status: int = 0
    _port: int = field(default_factory=lambda: first_of_free_ports(5))
    _meanwhile: subprocess.Popen[str] | None = None

    def __call__(self, typed: str) -> tuple[str, str]:
        if typed == "echo $?":
            return str(self.status), ""
        if typed == "kill %1; wait" and self._meanwhile:
            self._meanwhile.terminate()
            out, err = self._meanwhile.communicate()
            self.status = self._meanwhile.returncode
            return self._as_on_page(out), err
        for said, real in self.names.items():
            typed = typed.replace(said, real)
        for said, shorter in SHORTER.items() if self.shortens else ():
            typed = typed.replace(said, shorter)
        program, *words = shlex.split(typed.replace(TAP, f"127.0.0.1:{self._port}"), comments=True)
        file = None
        if words[-2:-1] == [">"]:
            *words, _, file = words
        if program == "printf":
            return self._printed("".join(words), file), ""
        if program == "sleep":
            subprocess.run([program, *words], check=True)
            return "", ""
        if program != "kipctl":
            raise ValueError(f"A page cannot type this here: {typed}")
        if words[-1:] == ["&"]:
            return "", self._started(words[:-1])
        short = SHORT.get(" ".join(words[:2]), [])
        if not self.shortens or (short and short[0] in words):
            short = []
        known = self.printed_once if self.shortens and typed in ONCE else {}
        if typed not in known:
            known[typed] = self.kipctl(*words, *short, works_in=self.folder, **self.variables)
        said = known[typed]
        self.status = said.status
        return self._printed(self._as_on_page(said.out), file), self._as_on_page(said.err)

    def _printed(self, text: str, file: str | None) -> str:
        """What is seen of it: nothing where it goes into a file."""
        if file is None:
            return text
        (self.folder / file).write_text(text)
        return ""

    def close(self) -> None:
        """End what still runs."""
        if self._meanwhile:
            self._meanwhile.kill()
            self._meanwhile.communicate()

    def _started(self, words: list[str]) -> str:
        self._meanwhile = subprocess.Popen(
            [sys.executable, "-m", "kipctl", *words],
            env={**os.environ, **self.variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._meanwhile.stderr is not None
        return self._as_on_page(self._meanwhile.stderr.readline())

    def _as_on_page(self, printed: str) -> str:
        for said, real in self.names.items():
            printed = printed.replace(real, said)
        return printed.replace(f"127.0.0.1:{self._port}", TAP)
