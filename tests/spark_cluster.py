"""A Spark standalone cluster on loopback: a master and workers of one core, any to be killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_TIMEOUT_S = 300

_LEVELS = """
rootLogger.level = info
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d %p %c{1}: %m%n%ex
"""

# Its input ends when the test session does, however that ends: then the cluster ends too.
_GUARD = """
import os, signal, sys
sys.stdin.read()
for pid in sys.argv[1:]:
    try:
        os.kill(int(pid), signal.SIGKILL)
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

    def kill(self) -> None:
        """As when its machine's power fails: the worker and its executors are gone at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """The master's address, and the workers."""

    master: str
    workers: tuple[Worker, ...]

    def executors(self) -> set[Path]:
        """The logs of all executors so far."""
        return {log for worker in self.workers for log in worker.executors()}

    def worker_of_new_executor(self, wanted: str, known: set[Path]) -> Worker:
        """Wait until an executor that is not `known` has logged what matches: its worker."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            for worker in self.workers:
                for log in worker.executors() - known:
                    if re.search(wanted, log.read_text(errors="replace")):
                        return worker
            assert time.monotonic() < deadline, f"no new executor has logged {wanted}"
            time.sleep(0.01)


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """A master and its workers, which keep their files in the folder."""
    with ExitStack() as ends:
        daemons: list[subprocess.Popen[bytes]] = []

        def start(name: str, *arguments: str) -> Path:
            daemon, log = _daemon(folder, name, arguments)
            daemons.append(daemon)
            ends.callback(daemon.wait)
            ends.callback(daemon.kill)
            return log

        log = start("master", "org.apache.spark.deploy.master.Master")
        master = _line(log, _STARTED)[1]
        names = [f"worker-{number}" for number in range(workers)]
        logs = [start(name, "org.apache.spark.deploy.worker.Worker", master) for name in names]
        guard = ends.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", _GUARD, *(str(daemon.pid) for daemon in daemons)],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        )
        assert guard.stdin is not None
        for log in logs:
            _line(log, re.compile(r"Successfully registered with master"))
        machines = zip(daemons[1:], (folder / name for name in names), strict=True)
        yield SparkCluster(master, tuple(Worker(*machine) for machine in machines))


def _daemon(
    folder: Path, name: str, arguments: tuple[str, ...]
) -> tuple[subprocess.Popen[bytes], Path]:
    log = folder / f"{name}.log"
    own_ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    if name != "master":
        own_ports += ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name)]
    levels = folder / "log4j2.properties"
    levels.write_text(_LEVELS)
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
                "SPARK_CONF_DIR": str(folder),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
                # Daemons and executors live for seconds: they compile plainly.
                "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile=file:{levels}",
            },
        )
    return daemon, log


def _line(log: Path, wanted: re.Pattern[str]) -> re.Match[str]:
    """The line that the daemon writes when it is there."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not (found := wanted.search(log.read_text(errors="replace"))):
        assert time.monotonic() < deadline, f"{log}: {log.read_text(errors='replace')}"
        time.sleep(0.05)
    return found
