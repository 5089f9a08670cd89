"""What the probe's process does: nothing its starter does can disturb its clock.

It imports the client and no more (no numpy, no Arrow): starting it costs CPU time, which belongs to
what is measured.
"""

import errno
from multiprocessing.connection import Connection
from pathlib import Path

from kipctl.child_process import ChildDiedError
from kipctl.probe.run import Outcome, Spec
from kipctl.trace.folder_lock import in_use

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run_probe(spec: Spec[Outcome], directory: Path, pipe: Connection) -> Outcome:
    """Run the probe, and send its schedule through the pipe. Raises KipctlError."""

    def should_stop() -> bool:
        return pipe.poll()

    try:
        with in_use(directory):
<<<<<<< HEAD
            return spec.run(directory, pipe.send, should_stop)
    except OSError as fault:
        if fault.errno not in _NO_ROOM:
            raise
        raise ChildDiedError(f"What it measured could not be written: {fault.strerror}.") from fault
=======
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
>>>>>>> wt-b
