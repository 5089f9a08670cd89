import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from passing_clock import passing_clock
from world import World

Now = Callable[[], float]


@contextmanager
def simulated() -> Iterator[Now]:
    world = World(random.Random(0))
    with world.rules_time():
        yield lambda: world.now_us / 1e6


@contextmanager
def passing() -> Iterator[Now]:
    with passing_clock() as clock:
        yield lambda: clock.now_s


@pytest.fixture
def naps() -> Iterator[threading.Semaphore]:
    """One more each time that a thread from before the test, as Spark has one, has slept."""
    naps, over = threading.Semaphore(0), threading.Event()

    def sleep_again_and_again() -> None:
        while not over.is_set():
            time.sleep(0.001)  # what is tested: a thread that sleeps as py4j's does
            naps.release()

    thread = threading.Thread(target=sleep_again_and_again)
    thread.start()
    yield naps
    over.set()
    thread.join()


@pytest.mark.parametrize("clock", [simulated, passing])
def test_who_was_there_before_sleeps_by_the_machine_s_time(
    clock: Callable[[], AbstractContextManager[Now]], naps: threading.Semaphore
) -> None:
    with clock() as now:
        began = now()
        while naps.acquire(blocking=False):
            pass  # from before the clock was replaced
        for _ in range(10):
            naps.acquire()
        assert now() == began


@pytest.mark.parametrize("clock", [simulated, passing])
def test_the_test_and_what_it_starts_sleep_by_its_own(
    clock: Callable[[], AbstractContextManager[Now]],
) -> None:
    with clock() as now:
        began = now()
        time.sleep(1000)  # no time passes: it is the clock of the test
        started = threading.Thread(target=lambda: time.sleep(1000))
        started.start()
        started.join()
        assert now() == pytest.approx(began + 2000)
