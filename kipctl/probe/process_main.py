"""What the probe's process does: nothing its starter does can disturb its clock.

It imports the client and no more (no numpy, no Arrow): starting it costs CPU time, which belongs to
what is measured.
"""

import errno
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from kipctl.errors import KipctlError
from kipctl.probe.run import Outcome, Spec
from kipctl.signals import leave_to_starter
from kipctl.trace.folder_lock import in_use

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ProbeDiedError(KipctlError):
    """The probe's process ended before it began: killed, or a fault in kipctl."""


def run_probe(spec: Spec[Outcome], directory: Path, pipe: Connection) -> None:
    """Run the probe, and send its schedule and its outcome (or a KipctlError) through the pipe."""
    leave_to_starter()

    def should_stop() -> bool:
        return pipe.poll()

    outcome: object
    try:
        with in_use(directory):
            outcome = spec.run(directory, pipe.send, should_stop)
    except KipctlError as error:
        outcome = error
    except BaseException as fault:
        if isinstance(fault, OSError) and fault.errno in _NO_ROOM:
            why = f"What it measured could not be written: {fault.strerror}."
        else:
            why = "The probe failed:\n" + traceback.format_exc()
        outcome = ProbeDiedError(why)
    with suppress(BrokenPipeError):  # its starter was killed: its outcome is in its rows
        pipe.send(outcome)
    pipe.close()
