"""Each command of kipctl: how many options it has, how long its help and its module are.

    python benchmarks/command_table.py [--before COMMIT]

The table is made from the commands themselves. With --before it is made of another commit too, in a
worktree of its own, by the same script, and stands beside it.
"""

import argparse
import inspect
import json
import os
import pty
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

COLUMNS, LINES = 80, 24
REPOSITORY = Path(__file__).parents[1]


def measured() -> dict[str, tuple[int, int, int]]:
    """Of each command its options, the lines of its help on 80 columns, and those of its module."""
    from typer import Context

    from kipctl.cli.app import root_command
    from kipctl.cli.help import commands

    def help_lines(path: str) -> int:
        """On a terminal."""
        ours, theirs = pty.openpty()
        words = [sys.executable, "-m", "kipctl", *path.split(), "--help"]
        with (
            os.fdopen(ours, "rb") as shown,
            subprocess.Popen(words, env={**os.environ, "COLUMNS": str(COLUMNS)}, stdout=theirs),
        ):
            os.close(theirs)
            lines = 0
            with suppress(OSError):  # so Linux says that the other side is closed
                for _ in shown:
                    lines += 1
        return lines

    sizes = {}
    for path, command in commands(root_command()):
        context = Context(command, info_name=f"kipctl {path}")
        names = [getattr(parameter, "opts", [""])[0] for parameter in command.get_params(context)]
        body = inspect.unwrap(command.callback)
        sizes[path] = (
            sum(name.startswith("-") for name in names),
            help_lines(path),
            len(Path(inspect.getfile(body)).read_text().splitlines()),
        )
    return sizes


def of_commit(commit: str) -> dict[str, tuple[int, int, int]]:
    """The same of another commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        git = ("git", "-C", str(REPOSITORY))
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            shown = subprocess.run(
                [sys.executable, __file__, "--json"],
                env={**os.environ, "PYTHONPATH": str(tree)},
                cwd=tree,
                check=True,
                capture_output=True,
                text=True,
            )
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", tree], check=True)
    return json.loads(shown.stdout)


def table(now: dict[str, tuple[int, int, int]], before: dict[str, tuple[int, int, int]]) -> str:
    """In Markdown; `before` may be empty."""
    rows = [
        ("command", "options", f"help, screens of {COLUMNS} x {LINES}", "lines of its module"),
        ("---", "---:", "---:", "---:"),
    ]

    def cell(sizes: tuple[int, int, int] | None, which: int) -> str:
        if sizes is None:
            return "-"
        return f"{sizes[1] / LINES:.1f}" if which == 1 else str(sizes[which])

    for path in sorted(now.keys() | before.keys()):
        both = [before.get(path), now.get(path)] if before else [now.get(path)]
        rows.append(
            (f"`kipctl {path}`", *(" → ".join(cell(sizes, i) for sizes in both) for i in range(3)))
        )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", metavar="COMMIT", help="Compare with that commit.")
    parser.add_argument("--json", action="store_true", help="Print what was measured.")
    given = parser.parse_args()
    now = measured()
    if given.json:
        print(json.dumps(now))
    else:
        print(table(now, of_commit(given.before) if given.before else {}), end="")


if __name__ == "__main__":
    main()
