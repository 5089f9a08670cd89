"""kipctl, killed or out of disk at its n-th step: run as a program, forked for each run.

A step is each write, sync, rename and removal in the journal, and each request before it is sent
and after. The program reads orders, one JSON a line (`Order`), and answers each with a line: the
exit status, negative for a signal, and how many steps there were. What is rehearsed is run by the
program itself: all that it imports the others have then.
"""

import errno
import gc
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from passing_clock import PassingClock


@dataclass(frozen=True)
class Order:
    """A command line, and its fault: at which step, counted from 1 (0: none), and which.

    The fault is "kill", or "full": from that step on nothing can be written any more; or it is a
    "rehearsal", without one.
    """

    arguments: list[str]
    variables: dict[str, str]
    log: str
    step: int = 0
    fault: str = "kill"


class Steps:
    """Counts the steps, and lets the fault happen at one of them."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.count = 0

    def request(self) -> None:
        """A step that writes nothing."""
        if self.order.fault == "kill":
            self._step()

    def write(self) -> None:
        """A step that writes."""
        self._step()
        if self.order.fault == "full" and 0 < self.order.step <= self.count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _step(self) -> None:
        self.count += 1
        if self.order.fault == "kill" and self.count == self.order.step:
            os.kill(os.getpid(), signal.SIGKILL)


def inject(steps: Steps) -> None:
    """Let each step be counted; this process does nothing else afterwards."""
    from kipctl.changes.journal import entry as journal_entry
    from kipctl.changes.journal import journal
    from kipctl.roll import record
    from kipctl.transport.blocking_connection import BlockingConnection

    def before(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
        @wraps(call)
        def counted(*arguments: Any, **options: Any) -> Any:
            step()
            return call(*arguments, **options)

        return counted

    def after(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
        @wraps(call)
        def counted(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            step()
            return result

        return counted

    whole = before(journal_entry.write_whole, steps.write)
    for module in (journal_entry, journal, record):
        setattr(module, "write_whole", whole)  # noqa: B010
    os.fsync = before(os.fsync, steps.write)
    setattr(Path, "replace", after(Path.replace, steps.request))  # noqa: B010
    setattr(Path, "unlink", after(Path.unlink, steps.request))  # noqa: B010
    setattr(Path, "touch", before(Path.touch, steps.write))  # noqa: B010
    receive = BlockingConnection._receive

    def received(self: BlockingConnection, size: int) -> bytes:
        if size == 4:  # the request is sent, and the answer is what comes next
            steps.request()
        return receive(self, size)

    setattr(BlockingConnection, "_receive", received)  # noqa: B010
    exchange = before(BlockingConnection._exchange, steps.request)
    setattr(BlockingConnection, "_exchange", exchange)  # noqa: B010


def carry_out(order: Order) -> int:
    """Run the command line; what it prints is in the order's log."""
    from kipctl.cli.app import run
    from kipctl.cli.environment import Environment

    with Path(order.log).open("w", encoding="utf-8") as log:
        return run(order.arguments, Environment(io.StringIO(), log, log, order.variables))


def forked(order: Order) -> tuple[int, int]:
    """Carry it out in a process of its own: its status, and how many steps there were."""
    read_end, write_end = os.pipe()
    if not (child := os.fork()):
        steps = Steps(order)
        inject(steps)
        status = carry_out(order)
        os.write(write_end, str(steps.count).encode())
        os._exit(status)
    os.close(write_end)
    _, ended = os.waitpid(child, 0)
    with os.fdopen(read_end) as count:
        return os.waitstatus_to_exitcode(ended), int(count.read() or 0)


def main() -> None:
    clock = PassingClock()
    time.monotonic, time.sleep = clock.monotonic, clock.sleep  # before kipctl is imported
    for line in sys.stdin:
        order = Order(**json.loads(line))
        if order.fault == "rehearsal":
            status, steps = carry_out(order), 0
            gc.freeze()  # what is there by now is not copied by each process that looks it through
        else:
            status, steps = forked(order)
        print(json.dumps({"status": status, "steps": steps}), flush=True)


if __name__ == "__main__":
    main()
