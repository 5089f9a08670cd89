"""How long `kipctl --help` takes beside a typer application of as many commands and options.

    python benchmarks/startup.py [--rounds 30] [--command "reassign --help"]

The other application is written from kipctl's own tree of commands: the same groups, commands,
options, defaults and texts, in one module that imports typer and nothing else. Both are run in
turn, from the start of Python to its end; a ratio is of the two runs of one round. CPU seconds
tell more than the clock where the machine does other things too.
"""

import argparse
import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kipctl.generate.commands import Command, Parameter, command_tree

MODULES = ("kipctl", "bare")


def bare_application(tree: Command) -> str:
    """The module's text."""
    lines = [
        "from typing import Annotated",
        "import typer",
        f"app = typer.Typer(help={tree.help!r}, add_completion=False)",
    ]
    apps = {tree.path: "app"}
    for number, command in enumerate(tree.walk()):
        if command.path == tree.path:
            continue
        holder, name = apps[command.path[:-1]], command.path[-1]
        if command.commands:
            apps[command.path] = f"app_{number}"
            lines.append(f"app_{number} = typer.Typer(help={command.help!r})")
            lines.append(f"{holder}.add_typer(app_{number}, name={name!r})")
            continue
        options = [option for option in command.options if "--help" not in option.names]
        parameters = [
            *(_argument(f"a{n}", argument) for n, argument in enumerate(command.arguments)),
            *(_option(f"o{n}", option) for n, option in enumerate(options)),
        ]
        lines.append(f"@{holder}.command({name!r}, help={command.help!r})")
        lines.append(f"def command_{number}({', '.join(parameters)}): ...")
    return "\n".join((*lines, ""))


def _argument(name: str, argument: Parameter) -> str:
    kind = "list[str]" if argument.repeatable else "str"
    return f"{name}: Annotated[{kind}, typer.Argument(metavar={argument.value!r})] = None"


def _option(name: str, option: Parameter) -> str:
    kind = "list[str]" if option.repeatable else "str" if option.value else "bool"
    default: str | bool | None = option.default if option.value else False
    if option.repeatable:
        default = None
    # The two spellings of a flag that can be switched off are one text.
    is_pair = any(spelling.startswith("--no-") for spelling in option.names)
    spellings = ["/".join(option.names)] if is_pair else option.names
    given = ", ".join(
        (
            *map(repr, spellings),
            f"help={option.help!r}",
            *([f"metavar={option.value!r}"] if option.value else []),
        )
    )
    return f"{name}: Annotated[{kind}, typer.Option({given})] = {default!r}"


def run(module: str, words: list[str], folder: Path) -> tuple[float, float]:
    """Seconds by the clock, and of CPU."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words], cwd=folder, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{module} {words} ended with {process.returncode}.")
    return taken, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--command", default="--help", help="What both are called with.")
    asked = parser.parse_args()
    tree = command_tree()
    with tempfile.TemporaryDirectory(prefix="kipctl-startup-") as name:
        package = Path(name) / "bare"
        package.mkdir()
        (package / "__init__.py").write_text(bare_application(tree))
        (package / "__main__.py").write_text("from bare import app\napp(prog_name='bare')\n")
        compileall.compile_dir(package, quiet=1)
        words = asked.command.split()
        rounds = [
            {module: run(module, words, Path(name)) for module in MODULES}
            for _ in range(asked.rounds + 1)
        ][1:]  # the first one fills the page cache
    count = sum(not command.commands for command in tree.walk())
    print(f"{asked.command!r}, {count} commands, {asked.rounds} rounds: median (p10 - p90)")
    for at, kind in enumerate(("clock", "CPU")):
        for module in MODULES:
            print(f"{kind}, {module}: {_spread([1000 * r[module][at] for r in rounds], 0)} ms")
        ratios = [r["kipctl"][at] / r["bare"][at] for r in rounds]
        print(f"{kind}, kipctl / bare: {_spread(ratios, 2)}")


def _spread(values: list[float], digits: int) -> str:
    tenths = statistics.quantiles(values, n=10)
    middle, least, greatest = statistics.median(values), tenths[0], tenths[8]
    return f"{middle:.{digits}f} ({least:.{digits}f} - {greatest:.{digits}f})"


if __name__ == "__main__":
    main()
