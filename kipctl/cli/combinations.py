"""Which options go together: declared beside them, checked when a command line is read."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kipctl.errors import UsageError

Declared = TypeVar("Declared")
_NAME = "combinations"


@dataclass(frozen=True)
class Combinations:
    """Options by their names, as `--watch`.

    `needs` are those that do nothing without another, or without one of several; of those that are
    `exclusive` one may be given, of `one_of` one has to be.
    """

    needs: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    exclusive: tuple[tuple[str, ...], ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()

    def check(self, given: Collection[str], page: str) -> None:
        """Raise UsageError for options of a command line that do not go together.

        `page` says where to read of them.
        """
        for names in (*self.exclusive, *self.one_of):
            if len(both := [name for name in names if name in given]) > 1:
                raise UsageError(
                    f"{' and '.join(both)} exclude one another.",
                    f"Give one of {', '.join(names)}.",
                )
        for names in self.one_of:
            if not any(name in given for name in names):
                raise UsageError(f"Give one of {', '.join(names)}.", page)
        for name, others in self.needs.items():
            needed = (others,) if isinstance(others, str) else others
            if name in given and not any(other in given for other in needed):
                raise UsageError(
                    f"{name} goes only with {' or '.join(needed)}.",
                    f"Add {needed[0] if len(needed) == 1 else 'one of them'}, or leave {name} out.",
                )


def combined(**rules: Any) -> Callable[[Declared], Declared]:
    """Declare what Combinations says of a command's options; also of a class of options."""

    def declared(command: Declared) -> Declared:
        setattr(command, _NAME, (*combinations_of(command), Combinations(**rules)))
        return command

    return declared


def combinations_of(command: Any) -> tuple[Combinations, ...]:
    """Those that were declared of a command, or of a class of options."""
    combinations: tuple[Combinations, ...] = getattr(command, _NAME, ())
    return combinations


def join(command: Any, groups: Iterable[type]) -> None:
    """Let a command have also those that were declared of its groups of options."""
    of_groups = (combinations for group in groups for combinations in combinations_of(group))
    setattr(command, _NAME, (*combinations_of(command), *of_groups))
