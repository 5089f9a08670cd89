"""Commands as functions of what they need: `kipctl` as it runs here, options, groups of options."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import OptionInfo

from kipctl.cli.combinations import join
from kipctl.cli.environment import Environment

Command = Callable[..., None]


class Commands(typer.Typer):
    """A group of commands. Each may take an Environment, and dataclasses whose fields are options.

    Called without a command it prints its page.
    """

    def __init__(self, *paragraphs: str, **settings: Any) -> None:
        """`paragraphs` of its page come after the sentence that `kipctl --help` has of it."""
        super().__init__(no_args_is_help=True, **settings)
        self.paragraphs = paragraphs

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Command], Command]:  # type: ignore[override]
        """Add the function that follows, and leave it as it is."""
        add = super().command(name, **settings)

        def added(command: Command) -> Command:
            add(grouped(command))
            return command

        return added

    def add(self, *commands: Command) -> None:
        """Add functions of other modules, named as they are."""
        for command in commands:
            self.command()(command)


def grouped(command: Command) -> Command:
    """The command as Typer is to see it: each field of such a dataclass is an option of its own, in
    its place, and the Environment is that of Typer's context. An option is spelled as its parameter
    or field, `--dry-run` for `dry_run`, unless it says how."""
    kinds = get_type_hints(command, include_extras=True)
    groups = {
        name: kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and is_dataclass(kind) and kind is not Environment
    }
    here = next((name for name, kind in kinds.items() if kind is Environment), "")

    @wraps(command)
    def called(**given: Any) -> None:
        if here:
            context = given.pop("context")
            given[here] = context.ensure_object(Environment)
            given[here].command = context.command_path.partition(" ")[2]
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    def shown(name: str, parameter: Parameter) -> Sequence[Parameter]:
        if name == here:
            return [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        if name not in groups:
            return [_option(parameter, kinds[name])]
        of_field = get_type_hints(groups[name], include_extras=True)
        held = signature(groups[name]).parameters.values()
        return [_option(option, of_field[option.name]) for option in held]

    taken = signature(command).parameters.items()
    parameters = [parameter for item in taken for parameter in shown(*item)]
    vars(called)["__signature__"] = Signature(parameters)
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    join(called, groups.values())
    return called


def _option(parameter: Parameter, kind: Any) -> Parameter:
    """The parameter as Typer is to see it; by itself it spells a flag `--no-dry-run` too."""
    for said in getattr(kind, "__metadata__", ()):
        if isinstance(said, OptionInfo) and said.default is ...:  # there Typer has a spelling
            spelled = copy(said)
            spelled.default = "--" + parameter.name.replace("_", "-")
            kind = Annotated[kind.__origin__, spelled]
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind)
