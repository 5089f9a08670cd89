"""The JVM that Spark runs in, by what PySpark has for itself alone.

All that kipctl needs of PySpark that is not in its public interface is here, and nowhere else
(`tests/pipeline/test_public_interface.py`); `pyproject.toml` holds PySpark to the versions that it
was tried with.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.java_gateway import JavaClass, JavaGateway, JavaMember, JavaObject, JVMView
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.utils import to_java_array
from pyspark.util import PythonEvalType

from kipctl.pipeline.class_archive import ClassArchive
from kipctl.pipeline.connect import is_connect
from kipctl.pipeline.launch import Launched, ended_in_time
from kipctl.pipeline.spark_log import why_not_begun
from kipctl.pipeline.warm import Lease

_END_TIMEOUT_S = 5.0
"""For a JVM that is asked to end; it removes its files first."""


class StageProgress(NamedTuple):
    """How far a stage is: tasks, and the rows it has read."""

    stage: int
    tasks_done: int
    tasks: int
    rows: int


def running_gateway() -> JavaGateway | None:
    """The connection with the JVM that this process has already."""
    return SparkContext._gateway


def has_ended() -> bool:
    """Whether there was a JVM, and it answers no more."""
    if not (gateway := running_gateway()):
        return False
    try:
        gateway.jvm.System.nanoTime()
    except (Py4JError, OSError):
        return True
    return False


def begin(launched: Launched, log: Path) -> JavaGateway:
    """Be connected with a JVM as soon as it answers. Raises PipelineError if it has ended."""
    answer = launched.gateway()
    if answer is None:
        raise why_not_begun(log)
    gateway = connected(*answer, launched.process)
    gateway.settings = launched.settings
    return gateway


def forget_settings(gateway: JavaGateway, defaults: Mapping[str, str]) -> None:
    """Let a JVM forget what the session that it was started for was set to, but for the defaults.

    Those settings are properties of the JVM, and a later session has what it is not set to from
    them: an analysis after a load would fail with the first task that is lost.
    """
    system = gateway.jvm.java.lang.System
    for name in gateway.settings:
        if name in defaults:
            system.setProperty(name, defaults[name])
        else:
            system.clearProperty(name)
    gateway.settings = ()


def connected(
    port: int, secret: str, process: "subprocess.Popen[bytes] | None" = None
) -> JavaGateway:
    """A connection with a JVM that runs; `process` if it is one of this process's own."""
    with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    assert isinstance(gateway, JavaGateway)
    gateway.proc = process
    gateway.jvm = _View(gateway.jvm)
    return gateway


class _View(JVMView):  # type: ignore[misc]
    """Asks the JVM for a class once.

    PySpark asks for one, and for its method, each time that it makes a column: a third of all that
    it sends. Where PySpark gives the simple name of a class, the JVM looks for it in every jar.
    """

    def __init__(self, view: JVMView) -> None:
        super().__init__(view._gateway_client, view._jvm_name, view._id)

    def __getattr__(self, name: str) -> object:
        answer = super().__getattr__(name)
        if isinstance(answer, JavaClass):
            answer = self.__dict__[name] = _Class(answer._fqn, answer._gateway_client)
        return answer


class _Class(JavaClass):  # type: ignore[misc]
    """Asks the JVM for a static method once; what a field holds may change."""

    def __getattr__(self, name: str) -> object:
        answer = super().__getattr__(name)
        if isinstance(answer, JavaMember):
            self.__dict__[name] = answer
        return answer


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
        ended_in_time(process, _END_TIMEOUT_S)
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
    """Have the JVM write the archive, and end it: that of the next session maps it."""
    if (gateway := SparkContext._gateway) and _process(gateway):
        try:
            with suppress(Py4JError):  # it ends meanwhile: the next session writes it
                archive.keep(partial(_write_classes, gateway))
        finally:
            end(gateway, signal.SIGTERM)
            forget(gateway)


def _write_classes(gateway: JavaGateway, path: Path) -> None:
    """`jcmd VM.cds dynamic_dump`, of the JVM itself, as not every Java has jcmd. One that knows no
    such command writes none."""
    java = gateway.jvm
    server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    # The server's own class is not open to reflection; the interface is.
    (invoke,) = (
        method
        for method in java.Class.forName("javax.management.MBeanServer").getMethods()
        if method.getName() == "invoke"
    )
    command = to_java_array(gateway, java.String, ["dynamic_dump", str(path)])
    name = java.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    arguments = (
        name,
        "vmCds",
        to_java_array(gateway, java.Object, [command]),
        to_java_array(gateway, java.String, ["[Ljava.lang.String;"]),
    )
    with suppress(Py4JJavaError):
        invoke.invoke(server, to_java_array(gateway, java.Object, arguments))


def _process(gateway: JavaGateway) -> "subprocess.Popen[bytes] | None":
    return getattr(gateway, "proc", None)


def await_executor(context: SparkContext) -> None:
    """Ask for an executor by a task that does nothing and needs no Python, and wait for it.

    One that is given only where a task waits for it (`spark.dynamicAllocation`) is given then.
    """
    context._jsc.parallelize([0], 1).count()


def of_kept_rows(kept: DataFrame) -> DataFrame:
    """A frame that was persisted, as a plan that begins at its rows.

    What Spark has for a lost one of them, all of the plan by which it was computed, it keeps apart
    from what is analysed again for each step that is added.
    """
    session = kept.sparkSession
    jvm, java_session = session._jvm, session._jsparkSession
    assert jvm is not None
    cached = java_session.sharedState().cacheManager().lookupCachedData(kept._jdf)
    rows = cached.get().cachedRepresentation()
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session, rows), session)


def mapped_in_arrow(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """`frame.mapInArrow`, without pandas: PySpark asks for it on this machine, and its workers make
    no use of it."""
    session = frame.sparkSession
    returned = from_arrow_schema(schema)
    if is_connect(session):
        return frame.mapInArrow(function, returned)
    mapped = UserDefinedFunction(
        function, returnType=returned, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    of_columns = mapped(*(frame[name] for name in frame.columns))
    rows = frame._jdf.mapInArrow(of_columns._jc, False, None)
    return DataFrame(rows, session)


def located_on(session: SparkSession, text: str) -> tuple[JavaObject, JavaObject]:
    """The Hadoop file system that a path or URI is on, and the path."""
    assert session._jvm is not None
    path = session._jvm.org.apache.hadoop.fs.Path(text)
    return path.getFileSystem(session._jsc.hadoopConfiguration()), path


def text_of(session: SparkSession, text: str) -> str:
    """What is in the file of this path or URI."""
    assert session._jvm is not None
    system, path = located_on(session, text)
    stream = system.open(path)
    try:
        return str(session._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def write_text(session: SparkSession, text: str, content: str) -> None:
    """Write a file; what is there at this path or URI is written over."""
    system, path = located_on(session, text)
    stream = system.create(path, True)
    try:
        stream.write(content.encode())
    finally:
        stream.close()


def schema_of(schema: pa.Schema) -> StructType:
    """Spark's own name for it."""
    spark_schema = from_arrow_schema(schema)
    assert isinstance(spark_schema, StructType)
    return spark_schema


def of_table(session: SparkSession, table: pa.Table) -> DataFrame:
    """Rows that are in this process; of none a server of Spark Connect has to be told the types."""
    if is_connect(session) and not table.num_rows:
        return session.createDataFrame([], schema_of(table.schema))
    return session.createDataFrame(table)


def work_in(context: SparkContext, folder: str) -> None:
    """Let the JVM take relative paths as from this folder."""
    assert context._jvm is not None
    hadoop = context._jvm.org.apache.hadoop.fs
    local = hadoop.FileSystem.getLocal(context._jsc.hadoopConfiguration())
    for system in (local, local.getRaw()):
        system.setWorkingDirectory(hadoop.Path(f"file:{folder}"))


class JavaObjects:
    """What of the JVM is held on to for Python, and what is kept in it."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        assert context._gateway is not None
        self._gateway = context._gateway
        server = JavaObject("GATEWAY_SERVER", self._gateway._gateway_client)
        self._held: Any = server.getGateway().getBindings().keySet()
        self._first = [str(name) for name in self._held.toArray()]

    def let_go(self) -> None:
        """Forget all that has come since this was made, and datasets that are kept."""
        for kept in self._context._jsc.getPersistentRDDs().values():
            kept.unpersist()
        self._held.retainAll([*self._first, self._held._target_id])
        # Blocks of local checkpoints go with what refers to them.
        self._gateway.jvm.System.gc()


def has_jobs(context: SparkContext) -> bool:
    """Whether a job runs."""
    return bool(list(context._jsc.sc().statusTracker().getActiveJobIds()))


def free_slots(context: SparkContext) -> int:
    """How many tasks can run at once."""
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
