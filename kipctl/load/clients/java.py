"""Java's producer and consumer of any version: driven by Kafka's own performance tools, or called
class by class through Py4J, where those tools do not do what is wanted."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from kipctl.counts import counted
from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError
from kipctl.load.clients import java_command, java_output
from kipctl.load.clients.child import Child
from kipctl.load.clients.client import (
    Consumed,
    ConsumerLoad,
    Produced,
    ProducerLoad,
    RunningClient,
)
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.reachable import require_reachable

if TYPE_CHECKING:  # PySpark brings it: it need not be there
    from py4j.java_gateway import JavaGateway

SOFTWARE = "apache-kafka-java"
_START_TIMEOUT_S = 60.0
_UNREACHABLE_AFTER_MS = 5_000
_CHECK_EVERY_US = 250_000
_STDERR_LIMIT = 1 << 20
"""So many bytes of stderr are kept: after the first failed sends it only repeats itself."""

_Result = TypeVar("_Result")


class _RunningJava(Generic[_Result]):
    """A JVM at work, and how its result is read when it is over.

    `name` is how messages speak of it, such as "Java's producer 3.6.0".
    """

    def __init__(
        self, name: str, child: Child, read: Callable[["_RunningJava[_Result]"], _Result]
    ) -> None:
        """Waits until the client is made, which the JVM takes about a second for."""
        self.name, self.child, self._read = name, child, read
        self.start_us = now_us()
        self.stopped = False
        self._stderr = ""
        self._checked_us = 0
        self._await_start()

    def _await_start(self) -> None:
        deadline_us = now_us() + round(_START_TIMEOUT_S * 1e6)
        while (started_ms := java_output.stated_start_ms(self.stderr())) is None:
            if self.child.is_over_by(now_us() + 10_000):
                # One with very little to do may be through; one that failed says why.
                started_ms = java_output.stated_start_ms(self.stderr())
                if started_ms is None and self.child.exit_code:
                    raise self.failure()
                break
            if now_us() > deadline_us:
                raise RefusedError(f"{self.name} did not start within {_START_TIMEOUT_S:.0f} s.")
        if started_ms is not None:
            self.start_us = now_us() - (time.time_ns() // 1000 - started_ms * 1000)

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock.

        Raises UnreachableError when no broker answers.
        """
        while not self.child.is_over_by(min(time_us, now_us() + _CHECK_EVERY_US)):
            self._check_reachable()
            if now_us() >= time_us:
                return False
        return True

    def stop(self) -> None:
        """Ask it to end: the tools then say nothing more, and records under way may be lost."""
        if self.child.exit_code is None:
            self.stopped = True
            self.child.terminate()

    def outcome(self) -> _Result:
        """Wait until it is done. Raises KipctlError with its own words if it failed."""
        while not self.is_done_by(now_us() + 3_600_000_000):
            pass
        if self.child.exit_code and not self.stopped:
            raise self.failure()
        return self._read(self)

    def stderr(self) -> str:
        """What it has said there so far, up to a limit."""
        new = self.child.new_stderr()
        self._stderr += new[: max(0, _STDERR_LIMIT - len(self._stderr))]
        return self._stderr

    def failure(self) -> KipctlError:
        """What to tell the user of a JVM that ended with an error."""
        code = self.child.exit_code
        if code is not None and code < 0:
            return RefusedError(f"{self.name} was ended by signal {-code}.")
        why = java_output.why_it_failed(self.child.stdout(), self.stderr())
        if why.startswith("ConfigException"):
            if "bootstrap" in why:
                return UnreachableError(f"{self.name} did not start: {why}")
            return UsageError(f"{self.name} did not start: {why}", "Correct that property.")
        return RefusedError(f"{self.name} failed: {why}")

    def _check_reachable(self) -> None:
        if now_us() - self._checked_us < _CHECK_EVERY_US:
            return
        self._checked_us = now_us()
        if why := java_output.unreachable_reason(self.stderr(), _UNREACHABLE_AFTER_MS):
            self.child.close()
            raise UnreachableError(
                f"{self.name} reached no broker, or not its topic: {why}.",
                "Check the bootstrap server and the topic's name.",
            )


@dataclass(frozen=True, slots=True)
class JavaClient:
    """Java's clients of one version. `java` is the program; `classpath` has Kafka's tools in it.

    A record of 10 MB needs a heap of several times `buffer.memory` and `max.request.size`.
    """

    version: str
    java: Path
    classpath: tuple[Path, ...]
    heap_mb: int = 256

    @contextmanager
    def producer(self, load: ProducerLoad, access: Access) -> Iterator[RunningClient[Produced]]:
        """ProducerPerformance; the process is gone when the block is left. Raises KipctlError,
        at once where the cluster does not let clients in."""

        def arguments(folder: Path) -> list[str]:
            return java_command.producer_arguments(self.version, load, folder)

        def read(running: _RunningJava[Produced]) -> Produced:
            return self._produced(running, load)

        with self._running("producer", load.properties, access, arguments, read) as running:
            yield running

    @contextmanager
    def consumer(self, load: ConsumerLoad, access: Access) -> Iterator[RunningClient[Consumed]]:
        """ConsumerPerformance; the process is gone when the block is left. Raises KipctlError,
        at once where the cluster does not let clients in."""

        def arguments(folder: Path) -> list[str]:
            return java_command.consumer_arguments(self.version, load, access, folder)

        read = self._consumed
        with self._running("consumer", load.properties, access, arguments, read) as running:
            yield running

    @contextmanager
    def gateway(self) -> Iterator[tuple["JavaGateway", Child]]:
        """A JVM with the client's classes for Python to call, on a port of loopback that needs a
        token; its stderr is the clients' log. A call takes a few hundred microseconds.

        It is gone after the block. Raises RefusedError when it does not start. Needs Py4J.
        """
        from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path

        name = f"The JVM of Java's client {self.version}"
        main = ["py4j.GatewayServer", "--enable-auth", "0"]
        with self._jvm(name, {}, Access(""), lambda _: main, Path(find_jar_path())) as child:
            deadline_us = now_us() + round(_START_TIMEOUT_S * 1e6)
            while len(said := child.stdout().splitlines()) < 2:  # its port, its token
                if child.is_over_by(now_us() + 10_000) or now_us() > deadline_us:
                    why = java_output.why_it_failed("", child.new_stderr())
                    raise RefusedError(f"{name} did not start: {why}")
            port, token = said[:2]
            gateway = JavaGateway(
                gateway_parameters=GatewayParameters(port=int(port), auth_token=token)
            )
            try:
                yield gateway, child
            finally:
                gateway.shutdown()

    @contextmanager
    def _running(
        self,
        kind: str,
        properties: Mapping[str, str],
        access: Access,
        arguments: Callable[[Path], list[str]],
        read: Callable[[_RunningJava[_Result]], _Result],
    ) -> Iterator[_RunningJava[_Result]]:
        """A tool at work."""
        require_reachable(access)
        name = f"Java's {kind} {self.version}"
        with self._jvm(name, properties, access, arguments) as child:
            yield _RunningJava(name, child, read)

    @contextmanager
    def _jvm(
        self,
        name: str,
        properties: Mapping[str, str],
        access: Access,
        arguments: Callable[[Path], list[str]],
        *jars: Path,
    ) -> Iterator[Child]:
        """In a folder of its own, which only its owner can read, with more jars if given."""
        with tempfile.TemporaryDirectory(prefix="kipctl-java-", ignore_cleanup_errors=True) as made:
            folder = Path(made)
            java_command.write_files(folder, properties, access)
            jvm = java_command.jvm_arguments((*self.classpath, *jars), self.heap_mb, folder)
            told = [f"-D{n}={text}" for n, text in java_command.system_properties(access).items()]
            try:
                child = Child([str(self.java), *told, *jvm, *arguments(folder)], folder)
            except OSError as error:
                raise UsageError(
                    f"{name} cannot be run: {error}.", "Check the path of java."
                ) from error
            with closing(child):
                yield child

    def _produced(self, running: _RunningJava[Produced], load: ProducerLoad) -> Produced:
        """Kafka's tool exits with 0 when every send failed: that is an error here."""
        stdout, stderr = running.child.stdout(), running.stderr()
        total = java_output.producer_total(stdout)
        error = java_output.failed_send(stderr)
        if total is None and not running.stopped:
            raise RefusedError(f"{running.name} ended without a result: {running.failure().what}")
        if total is not None and not total.records and load.num_records:
            raise RefusedError(
                f"{running.name}: all {counted(load.num_records, 'record')} failed:"
                f" {error or 'no reason'}"
            )
        records = total.records if total else java_output.records_of_intervals(stdout)
        return Produced(
            software=SOFTWARE,
            version=java_output.stated_version(stderr) or self.version,
            records=records,
            failed=load.num_records - records if total else 0,
            seconds=total.seconds if total else (now_us() - running.start_us) / 1e6,
            latency_ms=total.latency_ms if total else {},
            cpu_s=running.child.cpu_s,
            lines=tuple(stdout.splitlines()),
            error=error,
            stopped=running.stopped,
        )

    def _consumed(self, running: _RunningJava[Consumed]) -> Consumed:
        stdout, stderr = running.child.stdout(), running.stderr()
        total = java_output.consumer_total(stdout)
        if total is None and not running.stopped:
            raise RefusedError(f"{running.name} ended without a result: {running.failure().what}")
        return Consumed(
            software=SOFTWARE,
            version=java_output.stated_version(stderr) or self.version,
            records=total.records if total else None,
            bytes=total.bytes if total else None,
            seconds=total.seconds if total else (now_us() - running.start_us) / 1e6,
            cpu_s=running.child.cpu_s,
            lines=tuple(stdout.splitlines()),
            error=java_output.cut_short(stdout),
            stopped=running.stopped,
        )
