"""What every command refuses: an empty value, two values where an option takes one, and options
that do not go together.

The parser takes the last of two, silently; an empty value is a shell's variable that is not set,
and what it stands for then (every topic, the last change) may not be what is meant.
"""

from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from kipctl.cli.combinations import combinations_of
from kipctl.cli.environment import Environment
from kipctl.cli.help import argument_name, commands
from kipctl.errors import UsageError
from kipctl.next_step import Command


def refuse_mistyped(root: TyperGroup) -> TyperGroup:
    """Let every command below raise UsageError for them."""
    for _, command in commands(root):
        command.parse_args = partial(_parse_args, command, command.parse_args)  # type: ignore[method-assign]
    return root


def _parse_args(command: TyperCommand, parse: Any, context: Any, arguments: list[str]) -> Any:
    # The parser consumes its list, and notes each occurrence of an option in `order`.
    try:
        values, _, order = command.make_parser(context).parse_args(args=list(arguments))
    except typer.TyperException as wrong:
        vars(wrong)["ctx"] = context  # not all of them say of which command they are
        raise
    page = "See `" + Command(context.command_path.partition(" ")[2] + " --help") + "`."
    given: list[Any] = []
    for option in order:
        if option in given and not (getattr(option, "multiple", True) or option.is_eager):
            name = option.opts[0]
            raise UsageError(f"{name} is given twice; it can be given once.", page)
        given.append(option)
        value = values.get(option.name)
        if "" in (value if isinstance(value, list | tuple) else (value,)):
            raise UsageError(
                f"{_name(option)} is empty.", "A variable of the shell may not be set."
            )
    parsed = parse(context, arguments)  # and help, if that is asked for, is shown
    names = frozenset(_name(option) for option in given if values.get(option.name) is not None)
    context.ensure_object(Environment).given = names
    for combinations in combinations_of(command.callback):
        combinations.check(names, page)
    return parsed


def _name(parameter: Any) -> str:
    """What it is called in messages: an option by its first spelling."""
    is_option = isinstance(parameter, TyperOption)
    return parameter.opts[0] if is_option else argument_name(parameter)
