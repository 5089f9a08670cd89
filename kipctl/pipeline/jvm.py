"""The JVM that Spark runs in: how it begins, where its words go, and what Ctrl-C does to it.

What kipctl needs of PySpark that is not in its public interface is here.
"""

import logging
import os
import re
import signal
import subprocess
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from kipctl.errors import PipelineError
from kipctl.pipeline.class_archive import ClassArchive
from kipctl.pipeline.launch import Launched
from kipctl.pipeline.warm import Lease

_END_TIMEOUT_S = 5.0
"""For a JVM that is asked to end; it removes its files first."""
_OWN_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's, with handlers of their own: they would print every failed query on stderr."""
_WHY_NOT_STARTED = re.compile(r'^Exception in thread "main" (?:[\w$.]+: )?(.+)$', re.MULTILINE)


class StageProgress(NamedTuple):
    """How far a stage is: tasks, and the rows it has read."""

    stage: int
    tasks_done: int
    tasks: int
    rows: int


def begin(launched: Launched, log: Path) -> JavaGateway:
    """Be connected with a JVM as soon as it answers. Raises PipelineError if it has ended."""
    answer = launched.gateway()
    if answer is None:
        raise why_not_begun(log)
    return connected(*answer, launched.process)


def connected(
    port: int, secret: str, process: "subprocess.Popen[bytes] | None" = None
) -> JavaGateway:
    """A connection with a JVM that runs; `process` if it is one of this process's own."""
    with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    assert isinstance(gateway, JavaGateway)
    gateway.proc = process
    return gateway


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def end(gateway: JavaGateway, number: signal.Signals = signal.SIGKILL) -> None:
    """Send the signal to the JVM that was started with the gateway."""
    if process := _process(gateway):
        process.send_signal(number)


def forget(gateway: JavaGateway | None = None) -> None:
    """Wait for a JVM that was told to end; the next session starts another."""
    if gateway and (process := _process(gateway)):
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def warm_session(lease: Lease) -> SparkSession:
    """A session of its own in a JVM that is kept warm: apart from others are settings and views."""
    gateway = connected(lease.port, lease.secret)
    jvm = gateway.jvm
    shared = jvm.SparkSession.getDefaultSession().get()
    java_context = jvm.JavaSparkContext.fromSparkContext(shared.sparkContext())
    conf = SparkConf(_jvm=jvm, _jconf=java_context.getConf())
    context = SparkContext(conf=conf, gateway=gateway, jsc=java_context)
    return SparkSession(context, shared.newSession())


def leave(session: SparkSession) -> None:
    """Let go of a JVM that is kept warm, and let it live."""
    gateway = SparkContext._gateway
    with suppress(Py4JError, OSError):
        session.sparkContext._accumulatorServer.shutdown()
    if gateway:
        with suppress(Py4JError, OSError):
            gateway.close()
    forget()


def keep(archive: ClassArchive) -> None:
    """End the JVM, which writes the archive then; the next session starts another."""
    if SparkContext._gateway and (process := _process(SparkContext._gateway)):
        archive.keep(process)
        forget()


def _process(gateway: JavaGateway) -> "subprocess.Popen[bytes] | None":
    return getattr(gateway, "proc", None)


def run_a_task(context: SparkContext) -> None:
    """Run a job of one task that does nothing, and needs no Python where it runs."""
    context._jsc.parallelize([0], 1).count()


def located_on(session: SparkSession, text: str) -> tuple[JavaObject, JavaObject]:
    """The Hadoop file system that a path or URI is on, and the path."""
    assert session._jvm is not None
    path = session._jvm.org.apache.hadoop.fs.Path(text)
    return path.getFileSystem(session._jsc.hadoopConfiguration()), path


def free_slots(context: SparkContext) -> int:
    """How many tasks can run at once now."""
    spark = context._jsc.sc()
    profile = spark.resourceProfileManager().defaultResourceProfile()
    return int(spark.maxNumConcurrentTasks(profile))


def running_stages(context: SparkContext) -> Iterator[StageProgress]:
    """The stages that have tasks at work."""
    stages = context._jsc.sc().statusStore().activeStages()
    for stage in map(stages.apply, range(stages.size())):
        if stage.numActiveTasks():
            rows = stage.inputRecords() or stage.shuffleReadRecords()
            yield StageProgress(stage.stageId(), stage.numCompleteTasks(), stage.numTasks(), rows)


def why_not_begun(log: Path) -> PipelineError:
    """What a JVM that has exited before it answered wrote to its log, as an error."""
    text = log.read_text(errors="replace")
    if "HADOOP_CONF_DIR" in text:
        return PipelineError(
            "Spark finds no Hadoop configuration, and --master yarn needs it.",
            "Set HADOOP_CONF_DIR to the folder that holds core-site.xml and yarn-site.xml.",
        )
    reason = _WHY_NOT_STARTED.search(text)
    if reason and "UnsupportedClassVersionError" not in reason[0]:
        return PipelineError(
            f"Spark did not start: {reason[1][:400]}", f"Its own words are in {log}."
        )
    return PipelineError(
        "Spark needs Java 17 or newer, and it did not start.",
        f"See that `java -version` works, or set JAVA_HOME. Its own words are in {log}.",
    )


def log_python_to(log: Path) -> None:
    """Send what py4j and PySpark log in this process to the log file, not to stderr.

    It stays so: py4j also logs when it lets go of objects after the session's end.
    """
    # What to do about a JVM that is gone is told by the error.
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, _SparkLog):
            root.removeHandler(handler)
            handler.close()
    own = _SparkLog(log, delay=True)
    own.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(own)
    for name in _OWN_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        logger.handlers.clear()
        logging.Logger.addHandler(logger, own)  # PySpark's own would make it write JSON


class _SparkLog(logging.FileHandler):
    """Told apart from handlers that others have set."""


class Interrupts:
    """Ctrl-C while Spark starts and works: the JVM is ended, and whoever waits for it fails.

    One that is kept warm stays: its jobs are cancelled, and those that begin later.

    Spark's own answer is to cancel all jobs and to raise KeyboardInterrupt. But it has to ask the
    JVM for that, over a connection that may be in the middle of something; jobs that begin later
    go on; and an exception out of the blue is lost in a callback, or leaves a lock behind. Only a
    second Ctrl-C raises it here.
    """

    def __init__(self) -> None:
        self.came = False
        self._gateway: JavaGateway | None = None
        self._lease: Lease | None = None
        self._is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def listen(self) -> None:
        """Take the signal (again), if this is the main thread; one that is ignored stays so."""
        if _is_main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._is_ignored else self._note)

    def end_then(self, gateway: JavaGateway) -> None:
        """The JVM that is to be ended. Raises KeyboardInterrupt when Ctrl-C came before it did."""
        self._gateway = gateway
        if self.came:
            end(gateway, signal.SIGTERM)
            raise KeyboardInterrupt

    def cancel_then(self, lease: Lease) -> None:
        """The warm JVM that stays, and whose jobs are to be cancelled."""
        self._lease = lease
        if self.came:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        again, self.came = self.came, True
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
    if not _is_main_thread():
        yield own
        return
    before = signal.getsignal(signal.SIGINT)
    own.listen()
    try:
        yield own
    except BaseException:
        if not own.came:
            raise
    finally:
        try:
            if own.came:
                own.await_end()
        finally:
            signal.signal(signal.SIGINT, before)
    if own.came:
        raise KeyboardInterrupt


@contextmanager
def interrupts_as_usual() -> Iterator[None]:
    """While inside `interrupts`, Ctrl-C is Python's KeyboardInterrupt, and the JVM stays."""
    if not _is_main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
