"""Options that commands share, as one parameter of theirs: a dataclass whose fields are options."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer is to see it: with the fields of such parameters in their place."""
    kinds = get_type_hints(command, include_extras=True)
    groups = {
        name: kind for name, kind in kinds.items() if isinstance(kind, type) and is_dataclass(kind)
    }

    @wraps(command)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
        command(**given)

    shown = [
        one.replace(kind=Parameter.KEYWORD_ONLY, annotation=kinds_of[one.name])
        for name, parameter in signature(command).parameters.items()
        for kinds_of, ones in (
            (get_type_hints(groups[name], include_extras=True), signature(groups[name]).parameters)
            if name in groups
            else (kinds, {name: parameter}),
        )
        for one in ones.values()
    ]
    vars(called)["__signature__"] = Signature(shown)
    called.__annotations__ = {one.name: one.annotation for one in shown}
    return called
