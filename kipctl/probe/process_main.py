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
            return spec.run(directory, pipe.send, should_stop)
    except OSError as fault:
        if fault.errno not in _NO_ROOM:
            raise
        raise ChildDiedError(f"What it measured could not be written: {fault.strerror}.") from fault
