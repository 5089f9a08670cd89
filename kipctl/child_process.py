"""A function at work in a process of its own, and the pipe between the two."""

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection

from kipctl.errors import KipctlError
from kipctl.signals import ENDING, leave_to_starter

_END_TIMEOUT_S = 60.0


class ChildDiedError(KipctlError):
    """The process ended without an answer: killed, or a fault in kipctl."""


class ChildProcess:
    """A process that says when it has started, and sends its result; it ends with its starter.

    `work` gets `arguments` and its end of the pipe. It sends what it has `started` as, and may
    receive and send more; what it returns is sent last. A KipctlError that it raises is raised
    here. `name` is what messages call it: "The probe".
    """

    def __init__(
        self, name: str, work: Callable[..., object], *arguments: object, start_timeout_s: float
    ) -> None:
        """Start it; returns when it says that it has started. Raises KipctlError."""
        self._name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_in_child, args=(name, work, arguments, theirs), name=name, daemon=True
        )
        resource_tracker.ensure_running()  # multiprocessing's own: its start takes signals again
        with _signals_held_back():
            self._process.start()
        theirs.close()
        try:
            self.started = self.receive(start_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def send(self, message: object) -> None:
        """Raises OSError when it has ended already."""
        self._pipe.send(message)

    def stop(self) -> None:
        """Ask it to end, if it has not already."""
        with suppress(OSError):
            self.send("stop")

    def has_sent(self, timeout_s: float) -> bool:
        """Whether there is something to receive, its end included; waits for it so long."""
        return self._pipe.poll(timeout_s)

    def receive(self, timeout_s: float | None = None) -> object:
        """What it sends next; waits without limit for None. Raises KipctlError."""
        try:
            if not self._pipe.poll(timeout_s):
                raise ChildDiedError(f"{self._name} did not answer within {timeout_s:.0f} s.")
            message = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self.died() from None
        if isinstance(message, KipctlError):
            raise message
        return message

    def died(self) -> ChildDiedError:
        """The error of one whose pipe is closed."""
        self.join()
        code = self._process.exitcode
        return ChildDiedError(f"{self._name}'s process ended early (exit code {code}).")

    def join(self) -> None:
        """Wait until one that ends has ended."""
        self._process.join(_END_TIMEOUT_S)

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._pipe.close()


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """While inside, a new process begins with the signals to end held back.

    A terminal sends Ctrl-C to it, too, and it imports for a while before it can ignore that. In
    this process they arrive when the block is left.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_child(
    name: str, work: Callable[..., object], arguments: tuple[object, ...], pipe: Connection
) -> None:
    leave_to_starter()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    try:
        answer = work(*arguments, pipe)
    except KipctlError as error:
        answer = error
    except BaseException:
        answer = ChildDiedError(f"{name} failed:", traceback.format_exc())
    with suppress(BrokenPipeError):  # its starter was killed
        pipe.send(answer)
    pipe.close()
