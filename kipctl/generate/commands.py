"""The tree of commands with their options, as the man pages and the completions need it."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from kipctl.cli.app import root_command
from kipctl.cli.complete import values_of
from kipctl.cli.help import EXAMPLES, default_of, shown_value

_WORD = re.compile("[a-z0-9-]+")


@dataclass(frozen=True)
class Parameter:
    """An option or a positional argument.

    `names` are an option's spellings, and empty for an argument; `value` is what stands for its
    value in a synopsis, and empty for a flag; `default` is empty when there is none to speak of.
    """

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    is_known: bool
    """Whether `kipctl __complete` knows its values."""
    is_path: bool
    repeatable: bool
    required: bool
    default: str
    variables: tuple[str, ...]
    help: str


@dataclass(frozen=True)
class Command:
    """A command or a group of commands; `path` is how it is called, ("kipctl", "lab", "up")."""

    path: tuple[str, ...]
    help: str
    options: tuple[Parameter, ...]
    arguments: tuple[Parameter, ...]
    commands: tuple["Command", ...]
    examples: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How it is called, in one string."""
        return " ".join(self.path)

    @property
    def summary(self) -> str:
        """The first sentence of its help, without the full stop."""
        paragraph = " ".join(self.help.split("\n\n")[0].split())
        return paragraph.split(". ")[0].removesuffix(".")

    def walk(self) -> Iterator["Command"]:
        """This command and all below it, each before those that it holds."""
        yield self
        for command in self.commands:
            yield from command.walk()


def command_tree() -> Command:
    """Return `kipctl` with everything below it; what is hidden is left out."""
    return _command(root_command(), "kipctl", None)


def _command(source: TyperCommand | TyperGroup, name: str, parent: typer.Context | None) -> Command:
    context = typer.Context(source, info_name=name, parent=parent, **source.context_settings)
    parameters = source.get_params(context)
    held = source.commands if isinstance(source, TyperGroup) else {}
    return Command(
        path=tuple(context.command_path.split()),
        help=inspect.cleandoc(source.help or ""),
        options=tuple(
            # Short spellings first; typer has those of --help in a set, in no lasting order.
            _parameter(p, tuple(sorted([*p.opts, *p.secondary_opts], key=_is_long)))
            for p in parameters
            if isinstance(p, TyperOption) and not p.hidden
        ),
        arguments=tuple(
            _parameter(p, ()) for p in parameters if isinstance(p, TyperArgument) and not p.hidden
        ),
        commands=tuple(
            _command(command, name, context)
            for name, command in held.items()
            if isinstance(command, TyperCommand | TyperGroup) and not command.hidden
        ),
        examples=EXAMPLES.get(context.command_path.removeprefix("kipctl "), ()),
    )


def _is_long(name: str) -> bool:
    return name.startswith("--")


def _parameter(source: TyperOption | TyperArgument, names: tuple[str, ...]) -> Parameter:
    is_flag = isinstance(source, TyperOption) and source.is_flag
    kind = source.type_descriptor
    choices = tuple(shown_value(choice) for choice in kind.choices or ())
    value = "" if is_flag else source.metavar or source.name.upper()  # `laid_out` names options'
    variables = source.envvar or ()
    return Parameter(
        names=names,
        value=value,
        choices=choices or _alternatives(value),
        is_known=bool(value) and bool(values_of(value)),
        is_path=kind.is_path or kind.is_file,
        repeatable=source.multiple or source.nargs == -1,
        required=source.required,
        default=default_of(source),
        variables=(variables,) if isinstance(variables, str) else tuple(variables),
        help=inspect.cleandoc(source.help or ""),
    )


def _alternatives(value: str) -> tuple[str, ...]:
    """The words to choose from, of a value such as `all|1` or `rotate|restart:BROKER`."""
    return tuple(word for word in value.split("|") if _WORD.fullmatch(word)) if "|" in value else ()
