"""Commands as functions of what they need: `kipctl` as it runs here, options, groups of options."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import typer

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
    its place, and the Environment is that of Typer's context."""
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
            given[here] = given.pop("context").ensure_object(Environment)
        for name, kind in groups.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
        command(**given)

    def shown(name: str, parameter: Parameter) -> Sequence[Parameter]:
        if name == here:
            return [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        if name not in groups:
            return [parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kinds[name])]
        of_field = get_type_hints(groups[name], include_extras=True)
        return [
            one.replace(kind=Parameter.KEYWORD_ONLY, annotation=of_field[one.name])
            for one in signature(groups[name]).parameters.values()
        ]

    parameters = [one for of in signature(command).parameters.items() for one in shown(*of)]
    vars(called)["__signature__"] = Signature(parameters)
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    join(called, groups.values())
    return called
