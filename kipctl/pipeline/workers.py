"""A Spark session for workers that all have to run at once, each once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from kipctl.counts import counted
from kipctl.errors import PipelineError
from kipctl.pipeline.interrupts import interrupts_as_usual
from kipctl.pipeline.jvm import free_slots
from kipctl.pipeline.place import Place
from kipctl.pipeline.session import spark_session

_SETTINGS = {
    # A worker that is tried again would send its records twice.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
}
_SLOTS_TIMEOUT_S = 10.0
"""From when Spark has its first executor until it has all that were asked for."""
_POLL_S = 0.02


@contextmanager
def spark_for_workers(place: Place, workers: int) -> Iterator[SparkSession]:
    """A Spark session that can run so many workers at a time.

    Once it is there, Ctrl-C does not end Spark: a run is stopped in good order, by who called.
    Raises PipelineError when Spark cannot.
    """
    with (
        spark_session(place, settings=_SETTINGS, is_light=True, ships_python=True) as session,
        interrupts_as_usual(),
    ):
        _await_slots(session, place, workers)
        yield session


def _await_slots(session: SparkSession, place: Place, workers: int) -> None:
    """Spark starts a barrier stage at once or fails; it would ask again for ten minutes."""
    deadline = time.monotonic() + (0 if place.is_local else _SLOTS_TIMEOUT_S)
    while (slots := free_slots(session.sparkContext)) < workers:
        if time.monotonic() > deadline:
            raise PipelineError(
                f"Spark at {place.master} has {slots} task slots free, and"
                f" {counted(workers, 'worker')} need "
                f"{workers} at once.",
                "Ask for fewer --workers, or give Spark more cores.",
            )
        time.sleep(_POLL_S)
