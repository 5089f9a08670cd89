"""Where an experiment happens: a lab of its own, or a cluster that is there."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec


@contextmanager
def cluster_for(
    bootstrap_server: str | None, brokers: int, controllers: int, message: Callable[[str], None]
) -> Iterator[str]:
    """The bootstrap servers: those given, else of a lab that is gone after the block.

    Raises what `Lab.up` raises.
    """
    if bootstrap_server is not None:
        yield bootstrap_server
        return
    name = f"experiment-{os.getpid()}"
    lab = Lab.up(LabSpec(name=name, brokers=brokers, controllers=controllers), message)
    try:
        yield lab.bootstrap_server
    finally:
        message("Stopping the cluster.")
        lab.down()
