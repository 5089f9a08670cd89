"""The one Spark session: its settings, what it ships, its progress, its errors in our words."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kipctl.background import every
from kipctl.counts import counted
from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline import warm
from kipctl.pipeline.checkpoint import intermediate_results, scratch_removed
from kipctl.pipeline.class_archive import class_archive
from kipctl.pipeline.connect_session import connect_session
from kipctl.pipeline.executors import (
    keep_ending,
    log_executors,
    set_partitions,
    why_no_executor,
)
from kipctl.pipeline.failures import failure_of
from kipctl.pipeline.interrupts import Interrupts, interrupts, interrupts_as_usual
from kipctl.pipeline.jvm import (
    await_executor,
    begin,
    end,
    forget,
    forget_settings,
    has_ended,
    keep,
    leave,
    running_gateway,
    running_stages,
    warm_session,
)
from kipctl.pipeline.launch import log_path
from kipctl.pipeline.place import DEFAULT_MASTER, Place
from kipctl.pipeline.settings import defaults, local_settings
from kipctl.pipeline.shipped import packed
from kipctl.pipeline.spark_log import log_python_to
from kipctl.pipeline.start import conf_of, configured, options_of, started
from kipctl.pipeline.warm import warm_log_path
from kipctl.state import make_private

_REACH_TIMEOUT_S = 5.0
_PROGRESS_INTERVAL_S = 2.0
_LOOK_S = 0.2

Progress = Callable[[str], None]


@contextmanager
def spark_session(
    place: Place | str = DEFAULT_MASTER,
    progress: Progress = lambda _: None,
    settings: Mapping[str, str] | None = None,
    *,
    is_light: bool = False,
    compiles: bool = False,
    inputs: Sequence[str] = (),
    ships_python: bool = False,
) -> Iterator[SparkSession]:
    """A Spark session for the block, stopped when it is left; one at a time in a process.

    `progress` is told every two seconds what Spark is at. `settings` come before the user's own.
    A session that `is_light` has little to compute, and does it plainly; it compiles expressions
    if it `compiles`. On a cluster shuffles have parts by the size of the `inputs`, paths and
    wildcards; executors that are to run Python of
    kipctl's are sent it if the session `ships_python`. Everything that Spark raises in the block
    becomes a PipelineError of at most three lines. Ctrl-C ends Spark, and the block with
    KeyboardInterrupt, unless that goes on under `interrupts_as_usual`. The first session of a
    machine leaves an archive of Spark's classes behind, which takes some seconds at its end. Raises
    PipelineError when the master cannot be reached or gives no executor in time, and UsageError for
    a master that is no address.
    """
    place = Place(place) if isinstance(place, str) else place
    master = place.master
    _demand_listening(place)
    if place.is_connect:
        with connect_session(
            place, progress, is_light=is_light, ships_python=ships_python
        ) as session:
            yield session
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    lease = None if settings or running_gateway() else warm.lease(place)
    log = warm_log_path() if lease else log_path()
    make_private(log.parent)
    log_python_to(log)
    archive = class_archive(os.environ)
    is_new = running_gateway() is None and lease is None
    first = archive if is_new and archive and archive.is_missing else None
    with scratch_removed() as scratch, interrupts() as interrupt:
        try:
            if lease:
                interrupt.cancel_then(lease)
                session = warm_session(lease)
                interrupt.listen()
            else:
                conf, options = conf_of(place, settings or {}), options_of(place, is_light=is_light)
                session = _started(place, conf, options, log, interrupt)
            if place.is_local:
                cores = session.sparkContext.defaultParallelism
                chosen = local_settings(
                    cores, configured(place), is_light=is_light, compiles=compiles
                )
                for name, value in chosen.items():
                    session.conf.set(name, value)
            else:
                set_partitions(session, inputs)
        except (PySparkException, Py4JError, OSError) as failed:
            raise _start_error(failed, master, log) from failed
        try:
            with TemporaryDirectory(prefix="kipctl-") as folder, _reporting(session, progress):
                if ships_python and not place.is_local:
                    session.sparkContext.addPyFile(str(packed(Path(folder))))
                with intermediate_results(session, place.scratch, scratch):
                    yield session
        except (PySparkException, Py4JError, OSError) as failed:
            raise failure_of(failed, log, has_ended=has_ended()) from failed
        finally:
            if lease:
                leave(session)
                lease.end()
            elif not interrupt.was_interrupted:
                _stop(session)
        if first and not interrupt.was_interrupted:
            progress("Keeping Spark's classes, once, for a quicker start from now on.")
            with interrupts_as_usual():  # a JVM that writes takes no signal before it is done
                keep(first)


def _demand_listening(place: Place) -> None:
    """See that a standalone master or a server listens, before Spark tries for a minute."""
    refusals = []
    for address in place.addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_TIMEOUT_S).close()
            return
        except OSError as refused:
            refusals.append(f"{address}: {refused.strerror or refused}")
    if refusals:
        raise PipelineError(
            f"Spark cannot be reached: {'; '.join(refusals)}.",
            "See that it runs there, or leave --master out to use this machine alone.",
        )


def _started(
    place: Place,
    settings: Mapping[str, str],
    options: Sequence[str],
    log: Path,
    interrupt: Interrupts,
) -> SparkSession:
    """A session with an executor; a JVM that a master does not answer in time is ended."""
    if gateway := running_gateway():
        forget_settings(gateway, defaults(os.environ))
    else:
        gateway = begin(started(settings, options), log)
    interrupt.end_then(gateway)
    log_begins = log.stat().st_size if log.exists() else 0
    expired = threading.Event()

    is_over = threading.Event()

    def enforce_timeout() -> None:
        deadline = time.monotonic() + place.start_timeout_s
        while not is_over.wait(_LOOK_S):
            if time.monotonic() > deadline or keep_ending(log, log_begins):
                expired.set()
                end(gateway)
                return

    watch = threading.Thread(target=enforce_timeout, daemon=True)
    if not place.is_local:  # nobody else could keep it from starting
        log_executors(gateway)
        watch.start()
    try:
        conf = SparkConf().setAll(list(settings.items()))
        context = SparkContext(conf=conf, gateway=gateway)
        interrupt.listen()  # in place of Spark's own
        session = SparkSession(context)
        context.setLogLevel(context.getConf().get("spark.log.level", "WARN") or "WARN")
        if not place.is_local:
            await_executor(context)
        return session
    except (PySparkException, Py4JError, OSError):
        if reason := why_no_executor(place.master, log, log_begins):
            raise reason from None
        if expired.is_set():
            raise PipelineError(
                f"Spark at {place.master} did not give an executor within "
                f"{place.start_timeout_s:.0f} s.",
                "See that it has workers with free cores, or wait longer: --start-timeout 5m. "
                f"Spark's own words are in {log}.",
            ) from None
        raise
    finally:
        is_over.set()
        if watch.ident:
            watch.join()


def _stop(session: SparkSession) -> None:
    try:
        session.stop()
    except (PySparkException, Py4JError, OSError):
        # The JVM is gone: there is nothing left to stop.
        forget()


def _reporting(session: SparkSession, progress: Progress) -> AbstractContextManager[None]:
    """Tell the progress from a thread while the block runs."""
    last = ""

    def report() -> None:
        nonlocal last
        with suppress(Py4JError, OSError):
            text = _activity(session.sparkContext)
            if text and text != last:
                progress(text)
                last = text

    return every(_PROGRESS_INTERVAL_S, report)


def _activity(context: SparkContext) -> str:
    """The stages at work: how many tasks are done, how many rows were read."""
    texts = [
        f"stage {at.stage}: {counted(at.tasks_done, 'task', total=at.tasks)}"
        + (f", {at.rows:,} rows" if at.rows else "")
        for at in running_stages(context)
    ]
    return "Spark: " + "; ".join(texts) if texts else ""


def _start_error(failed: Exception, master: str, log: Path) -> Exception:
    text = str(failed)
    if "Could not parse Master URL" in text:
        return UsageError(
            f"--master {master!r} is no Spark master.",
            "Give local[N], spark://HOST:PORT, yarn, k8s://HOST:PORT, or sc://HOST.",
        )
    return failure_of(failed, log, has_ended=has_ended())
