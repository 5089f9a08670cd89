"""A session with a Spark Connect server: settings, what it is sent, progress, and its end."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from warnings import catch_warnings

from pyspark.errors import PySparkException, PySparkValueError
from pyspark.sql import SparkSession

from kipctl.counts import counted
from kipctl.errors import UsageError
from kipctl.extras import require
from kipctl.pipeline.failures import failure_of_server
from kipctl.pipeline.place import Place
from kipctl.pipeline.settings import connect_settings
from kipctl.pipeline.shipped import packed
from kipctl.signals import as_keyboard_interrupts

_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""While it is set, PySpark's functions make columns for servers, not for a JVM."""
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_MOST_RETRIES = 5
"""Of a call that the server does not answer, 50 ms after the first, then four times as long each
time: a minute in all, as PySpark does that three times; its own fifteen are half an hour."""


@contextmanager
def connect_session(
    place: Place, progress: Callable[[str], None], *, is_light: bool, ships_python: bool
) -> Iterator[SparkSession]:
    """A session with the server for the block, which ends with it; the server goes on.

    Ctrl-C, SIGTERM and SIGHUP end the block with KeyboardInterrupt, and what the server is at for
    it. Raises UsageError where `kipctl[connect]` is not installed or the server does not take a
    setting, and PipelineError for what Spark raises.
    """
    for module in ("grpc", "grpc_status", "pandas", "zstandard"):
        require(module, "Spark Connect")
    if os.environ.get(_TOKEN) and place.addresses[0].lower().startswith("localhost:"):
        raise UsageError(
            f"{_TOKEN} is not sent to localhost: without TLS, whoever listens at ::1 could get it.",
            "Name the server's host, with use_ssl=true; or leave the token out.",
        )
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    was = os.environ.get(_MODE)
    os.environ[_MODE] = "1"
    try:
        with (
            as_keyboard_interrupts(),
            catch_warnings(action="ignore", category=UserWarning),  # of retries: it is told once
            TemporaryDirectory(prefix="kipctl-") as folder,
        ):
            try:
                own = ConnectSession.builder.remote(place.master).create()
            except PySparkValueError as wrong:
                raise UsageError(
                    f"--master {place.master!r} is no address of Spark Connect.",
                    "Write it as sc://HOST:15002/;use_ssl=true.",
                ) from wrong
            own.client.set_retry_policies([DefaultPolicy(max_retries=_MOST_RETRIES)])
            session = cast(SparkSession, own)
            try:
                _configure(session, connect_settings(place.conf, is_light=is_light))
                if ships_python:
                    session.addArtifacts(str(packed(Path(folder))), pyfile=True)
                session.registerProgressHandler(_progress_handler(progress))
                yield session
            except KeyboardInterrupt:
                with suppress(PySparkException, OSError):
                    session.interruptAll()
                raise
            except PySparkException as failed:
                own.client.set_retry_policies([])  # one that is gone is not asked to let go of it
                raise failure_of_server(failed, place.master) from failed
            finally:
                session.stop()
    finally:
        if was is None:
            del os.environ[_MODE]


def _configure(session: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        try:
            session.conf.set(name, value)
        except PySparkException as refused:
            if not (refused.getCondition() or "").startswith("CANNOT_MODIFY"):
                raise
            raise UsageError(
                f"The server does not take {name} from a session: {refused.getMessage()}",
                "Set it where the server is started.",
            ) from refused


def _progress_handler(progress: Callable[[str], None]) -> Any:
    """Reports what the server is at, when that has changed."""
    last = ""

    def handle_progress(stages: Sequence[Any] | None, **_: object) -> None:
        nonlocal last
        at_work = [stage for stage in stages or () if not stage.done]
        tasks = sum(stage.num_tasks for stage in at_work)
        # Tasks that were tried again are counted each time.
        done = min(tasks, sum(stage.num_completed_tasks for stage in at_work))
        text = f"Spark: {counted(done, 'task', total=tasks)} of {counted(len(at_work), 'stage')}"
        if at_work and text != last:
            progress(text)
            last = text

    return handle_progress
