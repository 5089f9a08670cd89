"""An option that takes one value is refused when it is given twice; the parser takes the last."""

from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from kipctl.cli.help import commands
from kipctl.errors import UsageError


def refuse_repeated_options(root: TyperGroup) -> TyperGroup:
    """Let every command below raise UsageError for an option that is given twice."""
    for _, command in commands(root):
        command.parse_args = partial(_parse_args, command, command.parse_args)  # type: ignore[method-assign]
    return root


def _parse_args(command: TyperCommand, parse: Any, context: Any, arguments: list[str]) -> Any:
    # The parser consumes its list, and notes each occurrence of an option in `order`.
    _, _, order = command.make_parser(context).parse_args(args=list(arguments))
    given: list[Any] = []
    for option in order:
        if option in given and not (getattr(option, "multiple", True) or option.is_eager):
            raise UsageError(
                f"{option.opts[0]} is given twice; it can be given once.",
                f"See `{context.command_path} --help`.",
            )
        given.append(option)
    return parse(context, arguments)
