"""Loops within one case, for what has to hold of every version: what fails names the one it met."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

Test = Callable[..., None]


@contextmanager
def noted(*values: object) -> Iterator[None]:
    """What fails within the block says with which values."""
    try:
        yield
    except Exception as error:
        names = (getattr(value, "__name__", repr(value)) for value in values)
        error.add_note("With " + ", ".join(names))
        raise


def looped(names: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one case."""
    arguments = names.split(", ")
    rows = [value if len(arguments) > 1 else (value,) for value in values]

    def decorated(test: Test) -> Test:
        @wraps(test)
        def loop(**fixtures: object) -> None:
            for row in rows:
                with noted(*row):
                    test(**fixtures, **dict(zip(arguments, row, strict=True)))

        signature = inspect.signature(test)
        others = [p for name, p in signature.parameters.items() if name not in arguments]
        loop.__signature__ = signature.replace(parameters=others)
        return loop

    return decorated
