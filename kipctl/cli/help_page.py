"""A page of help as it is printed: options by purpose, one line for each where there is room."""

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from kipctl.cli.environment import Environment
from kipctl.cli.help import default_of

_WIDEST = 100
TWO_SCREENS = 48
_TERMS = 25
"""Columns of a term, in front of what is said of it; a longer one takes what it needs."""


def with_pages(command: TyperGroup) -> TyperGroup:
    """Let the command, and all below it, print its help as `page` has it."""
    command.format_help = partial(_write, command)  # type: ignore[method-assign]
    for held in command.commands.values():
        if isinstance(held, TyperGroup):
            with_pages(held)
        elif isinstance(held, TyperCommand):
            held.format_help = partial(_write, held)  # type: ignore[method-assign]
    return command


def _write(command: TyperCommand | TyperGroup, context: Any, formatter: Any) -> None:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    most = TWO_SCREENS if context.ensure_object(Environment).stdout.isatty() else None
    formatter.write("\n".join(page(command, context, width, most)))


def page(
    command: TyperCommand | TyperGroup, context: Any, width: int, most: int | None = None
) -> list[str]:
    """The lines of its help, of `width` columns at most where words allow.

    Where there would be more than `most` lines, purposes from the last one on have their options in
    brief, and the last line says where all of it is.
    """
    before, after = [*_beginning(command, context, width)], [*_end(command, width)]
    panels: dict[str, list[TyperOption]] = {}
    for param in command.get_params(context):
        if isinstance(param, TyperOption) and not param.hidden:
            panels.setdefault(param.rich_help_panel or "Options", []).append(param)
    shown = {title: [*_section(title, map(_row, panel), width)] for title, panel in panels.items()}
    # What is asked before something is changed is never in brief, and nor is what comes first.
    in_brief = [title for title in [*panels][:0:-1] if title != "Asking first"]
    fixed = len(before) + len(after)
    if most is not None and fixed + sum(map(len, shown.values())) > most:
        after += ["", f"Each option in a line: {context.command_path} --help | less"]
        for title in in_brief:
            if fixed + 2 + sum(map(len, shown.values())) <= most:
                break
            shown[title] = [*_in_brief(title, panels[title], width)]
    return [*before, *(line for lines in shown.values() for line in lines), *after]


def _beginning(command: TyperCommand | TyperGroup, context: Any, width: int) -> Iterator[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    # The parser puts brackets around what is optional; a metavar has its own.
    usage = f"Usage: {context.command_path} {pieces}"
    yield re.sub(r"\[(\[\w+\](?:\.{3})?)\](?:\.{3})?", r"\1", usage)
    for paragraph in (command.help or "").split("\n\n"):
        yield ""
        yield from textwrap.wrap(paragraph, width, break_on_hyphens=False)
    yield ""
    parameters = command.get_params(context)
    arguments = [
        parameter
        for parameter in parameters
        if isinstance(parameter, TyperArgument) and parameter.help
    ]
    if arguments:
        yield from _section(
            "Arguments",
            ((argument.metavar or "", argument.help or "") for argument in arguments),
            width,
        )


def _end(command: TyperCommand | TyperGroup, width: int) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        held = command.commands.items()
        rows = ((name, (subcommand.help or "").partition("\n\n")[0]) for name, subcommand in held)
        yield from _section("Commands", rows, width)
    if command.epilog:
        yield ""
        yield from command.epilog.splitlines()


def _in_brief(title: str, options: Iterable[TyperOption], width: int) -> Iterator[str]:
    """Their names and values alone, on as few lines as they take."""
    line = f"{typer.style(title, bold=True)}:"
    used = len(title) + 1
    for option in options:
        term = f"  {max(option.opts, key=len)} {option.metavar or ''}".rstrip()
        if used + len(term) > width:
            yield line
            line, used = "", 0
        line, used = line + term, used + len(term)
    yield line


def _section(title: str, rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    yield typer.style(title, bold=True)
    for term, text in rows:
        # A long term pushes its first line to the right, and the others stay where they are.
        first = f"  {term}".ljust(_TERMS) + "  "
        yield from textwrap.wrap(
            text,
            width,
            initial_indent=first,
            subsequent_indent=" " * (_TERMS + 2),
            break_on_hyphens=False,
            break_long_words=False,
        ) or [first.rstrip()]


def _row(option: TyperOption) -> tuple[str, str]:
    names = ", ".join(sorted((*option.opts, *option.secondary_opts), key=len))
    default = default_of(option).replace(",", ", ")  # where a line may end
    text = f"{option.help or ''}{f' Default: {default}.' if default else ''}"
    return f"{names} {option.metavar or ''}".rstrip(), text
