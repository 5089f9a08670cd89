"""Ctrl-C, SIGTERM and SIGHUP while Spark starts and works."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from py4j.java_gateway import JavaGateway

from kipctl.pipeline.jvm import end, forget
from kipctl.pipeline.warm import Lease
from kipctl.signals import Received, as_keyboard_interrupts, handled_by, is_main_thread


class Interrupts:
    """Ctrl-C (or another signal to end): the JVM is ended, and whoever waits for it fails.

    One that is kept warm stays: its jobs are cancelled, and those that begin later.

    Spark's own answer is to cancel all jobs and to raise KeyboardInterrupt. But it has to ask the
    JVM for that, over a connection that may be in the middle of something; jobs that begin later
    go on; and an exception out of the blue is lost in a callback, or leaves a lock behind. Only a
    second Ctrl-C raises it here.
    """

    def __init__(self) -> None:
        self.was_interrupted = False
        self._gateway: JavaGateway | None = None
        self._lease: Lease | None = None
        self._is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def listen(self) -> None:
        """Take Ctrl-C again after Spark has taken it; one that is ignored stays so."""
        if is_main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._is_ignored else self.note)

    def end_then(self, gateway: JavaGateway) -> None:
        """The JVM that is to be ended. Raises KeyboardInterrupt when Ctrl-C came before it did."""
        self._gateway = gateway
        if self.was_interrupted:
            end(gateway, signal.SIGTERM)
            raise KeyboardInterrupt

    def cancel_then(self, lease: Lease) -> None:
        """The warm JVM that stays, and whose jobs are to be cancelled."""
        self._lease = lease
        if self.was_interrupted:
            raise KeyboardInterrupt

    def note(self, number: int, frame: FrameType | None) -> None:
        """Take a signal to end."""
        Received.note(number)
        again, self.was_interrupted = self.was_interrupted, True
        if self._lease:
            self._lease.cancel()
        if self._gateway:
            end(self._gateway, signal.SIGKILL if again else signal.SIGTERM)
        if again:
            raise KeyboardInterrupt

    def await_end(self) -> None:
        """After Ctrl-C: wait until the JVM has ended."""
        forget(self._gateway)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """While inside, Ctrl-C ends the JVM, and the block then ends with KeyboardInterrupt.

    That is so whatever those raised who met the end of the JVM, and if nobody did.
    """
    own = Interrupts()
    if not is_main_thread():
        yield own
        return
    with handled_by(own.note):
        try:
            yield own
        except BaseException:
            if not own.was_interrupted:
                raise
        finally:
            if own.was_interrupted:
                own.await_end()
    if own.was_interrupted:
        raise KeyboardInterrupt


interrupts_as_usual = as_keyboard_interrupts
"""While inside `interrupts`, a signal to end raises KeyboardInterrupt, and the JVM stays."""
