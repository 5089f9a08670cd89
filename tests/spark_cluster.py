"""A Spark standalone cluster on loopback: a master and workers of one core, any to be killed."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from kipctl.pipeline.class_archive import class_archive

SPARK_HOME = Path(pyspark.__file__).parent
CONFIGURATION = "conf"
"""A folder of the cluster's, there if a test has made it: a JVM maps no archive where it is."""
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)\n")
_SERVES = re.compile(r"Spark Connect server started at: (\S+)\n")
_REGISTERED = re.compile(r"Successfully registered with master")
_TIMEOUT_S = 300

_LEVELS = """
rootLogger.level = warn
logger.started.name = org.apache.spark.deploy
logger.started.level = info
logger.connect.name = org.apache.spark.sql.connect.service
logger.connect.level = info
logger.task.name = org.apache.spark.executor.Executor
logger.task.level = info
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d %p %c{1}: %m%n%ex
"""

# Its input names daemons that start, and once more those that were killed. It ends when the test
# session does, however that ends: then the cluster ends too.
_GUARD = """
import os, signal, sys
pids = set()
for line in sys.stdin:
    pids ^= {int(line)}
for pid in pids:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker, with the executors that it started, as one machine of the cluster."""

    process: "subprocess.Popen[bytes]"
    folder: Path

    def executors(self) -> set[Path]:
        """The logs of the executors that it has started, whether they live or not."""
        return set(self.folder.glob("app-*/*/stderr"))


@dataclass
class SparkCluster:
    """The master's address, and the workers that live. Their files are in the folder."""

    folder: Path
    ends: ExitStack
    guard: "subprocess.Popen[str]"
    master: str = ""
    workers: list[Worker] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def start_master(self) -> None:
        _, log = self._daemon("master", "org.apache.spark.deploy.master.Master")
        self.master = _line(log, _STARTED)[1]

    @contextmanager
    def connect_server(self, checkpoints: Path) -> Iterator[str]:
        """A server of Spark Connect, which has the cluster's executors for the block: its address.
        What is kept is in the folder, and so outlives executors."""
        settings = {
            "spark.checkpoint.dir": str(checkpoints),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
        conf = [word for setting in settings.items() for word in ("--conf", "=".join(setting))]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        words = ("--master", self.master, *conf, "--class", server, "spark-internal")
        daemon, log = self._daemon("connect", "org.apache.spark.deploy.SparkSubmit", *words)
        try:
            yield f"sc://{_line(log, _SERVES)[1]}"
        finally:
            self._end(daemon)

    def start_workers(self, number: int) -> None:
        """Start them, and wait until the master knows them."""
        logs = []
        for at in itertools.islice(self._numbers, number):
            name = f"worker-{at}"
            process, log = self._daemon(name, "org.apache.spark.deploy.worker.Worker", self.master)
            self.workers.append(Worker(process, self.folder / name))
            logs.append(log)
        for log in logs:
            _line(log, _REGISTERED)

    def kill(self, worker: Worker) -> None:
        """As when its machine's power fails: the worker and its executors are gone at once."""
        os.killpg(worker.process.pid, signal.SIGKILL)
        self.workers.remove(worker)
        self._end(worker.process)

    def logged(self) -> dict[Path, int]:
        """How long the logs of executors are by now."""
        return {log: log.stat().st_size for worker in self.workers for log in worker.executors()}

    def worker_that_logs(self, wanted: str, since: Mapping[Path, int]) -> Worker:
        """Wait until an executor has logged what matches, after what was `logged`: its worker."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            for worker in self.workers:
                for log in worker.executors():
                    text = log.read_bytes()[since.get(log, 0) :].decode(errors="replace")
                    if re.search(wanted, text):
                        return worker
            assert time.monotonic() < deadline, f"no executor has logged {wanted}"
            time.sleep(0.05)

    def _daemon(self, name: str, *arguments: str) -> "tuple[subprocess.Popen[bytes], Path]":
        daemon, log = _daemon(self.folder, name, arguments)
        self.ends.callback(self._end, daemon)
        self._tell_guard(daemon.pid)
        return daemon, log

    def _end(self, daemon: "subprocess.Popen[bytes]") -> None:
        if daemon.returncode is None:
            daemon.kill()
            daemon.wait()
            self._tell_guard(daemon.pid)

    def _tell_guard(self, pid: int) -> None:
        print(pid, file=self.guard.stdin, flush=True)


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """A master and its workers, which keep their files in the folder."""
    with ExitStack() as ends:
        guard = ends.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", _GUARD],
                stdin=subprocess.PIPE,
                start_new_session=True,
                text=True,
            )
        )
        cluster = SparkCluster(folder, ends, guard)
        cluster.start_master()
        cluster.start_workers(workers)
        yield cluster


def _daemon(
    folder: Path, name: str, arguments: tuple[str, ...]
) -> tuple[subprocess.Popen[bytes], Path]:
    log = folder / f"{name}.log"
    is_submitted = name == "connect"
    own_ports = [] if is_submitted else ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    if name.startswith("worker"):
        own_ports += ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name)]
    levels = folder / "log4j2.properties"
    levels.write_text(_LEVELS)
    # Daemons and executors live for seconds: they compile plainly, and begin with the classes that
    # a session has left.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *_classes()]
    options.append(f"-Dlog4j2.configurationFile=file:{levels}")
    command = [SPARK_HOME / "bin" / "spark-class", arguments[0], *own_ports, *arguments[1:]]
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ
            | {
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_CONF_DIR": str(folder / CONFIGURATION),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "1g" if is_submitted else "256m",
                "PYSPARK_PYTHON": sys.executable,
                "JAVA_TOOL_OPTIONS": " ".join(options),
            },
        )
    return daemon, log


def _classes() -> list[str]:
    """The options by which a JVM maps Spark's classes, if there is an archive of them."""
    archive = class_archive(os.environ)
    return archive.options() if archive and not archive.is_missing else []


def _line(log: Path, wanted: re.Pattern[str]) -> re.Match[str]:
    """The line that the daemon writes when it is there."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not (match := wanted.search(log.read_text(errors="replace"))):
        assert time.monotonic() < deadline, f"{log}: {log.read_text(errors='replace')}"
        time.sleep(0.05)
    return match
