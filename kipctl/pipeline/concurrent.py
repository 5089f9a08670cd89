"""Questions to Spark at the same time: most of a small one's time is waiting for its answer."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREADS = 4
_Name = TypeVar("_Name")
_Answer = TypeVar("_Answer")


def all_at_once(questions: Mapping[_Name, Callable[[], _Answer]]) -> dict[_Name, _Answer]:
    """The answer to each, asked in a thread of its own, in the order given; some at a time."""
    with ThreadPoolExecutor(_THREADS) as threads:
        asked = {name: threads.submit(question) for name, question in questions.items()}
        return {name: answer.result() for name, answer in asked.items()}
