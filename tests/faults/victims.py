"""kipctl, killed or out of disk at its n-th step: run as a program, forked for each run.

A step is each write, sync, rename and removal in the journal, and each request before it is sent
and after. The program reads orders, one JSON a line (`Order`), and answers each with a line: the
exit status, negative for a signal, and how many steps there were. It imports kipctl once.
"""

import errno
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Order:
    """A command line, and its fault: at which step, counted from 1 (0: none), and which.

    The fault is "kill", or "full": from that step on nothing can be written any more.
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
    from kipctl.cluster.moves import journal, journal_entry
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
    for module in (journal_entry, journal):
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


def carry_out(order: Order, steps: Steps) -> int:
    """Run the command line; what it prints is in the order's log."""
    from kipctl.cli.app import run
    from kipctl.cli.environment import Environment

    with Path(order.log).open("w", encoding="utf-8") as log:
        environment = Environment(io.StringIO(), log, log, order.variables)
        inject(steps)
        return run(order.arguments, environment)


def main() -> None:
    from kipctl.cli import app, reassign_resume, reassign_rollback, reassign_ways
    from kipctl.cluster.moves import log_sizes, plan_execution, resume, throttled_change
    from kipctl.cluster.moves.planners import options

    assert all((app, reassign_resume, reassign_rollback, reassign_ways, plan_execution, log_sizes))
    assert all((resume, throttled_change, options))
    for line in sys.stdin:
        order = Order(**json.loads(line))
        read_end, write_end = os.pipe()
        if not (child := os.fork()):
            steps = Steps(order)
            status = carry_out(order, steps)
            os.write(write_end, str(steps.count).encode())
            os._exit(status)
        os.close(write_end)
        _, ended = os.waitpid(child, 0)
        count = os.read(read_end, 100)
        os.close(read_end)
        status = os.waitstatus_to_exitcode(ended)
        print(json.dumps({"status": status, "steps": int(count or 0)}), flush=True)


if __name__ == "__main__":
    main()
