"""Starts Spark's JVM, by the command that Spark's own launcher gives for it.

`spark-submit` starts a JVM that only prints the command of the next one. Here that is asked once
for each Java, Spark and configuration, and kept. Nothing of Spark is imported: its JVM starts while
Python still reads PySpark.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kipctl import java_properties
from kipctl.errors import UsageError
from kipctl.state import own_folder, state_folder

_MAIN = "org.apache.spark.deploy.SparkSubmit"
_OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
"""What a user's environment has for the JVM comes after what kipctl has."""
_READ = ("SPARK_", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_HOME", "LD_LIBRARY_PATH")
"""Variables, by how they begin, that the launcher reads."""
_OF_JVM = (
    "spark.driver.memory",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultExtraClassPath",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
)
"""The settings that the launcher makes the JVM's command of."""
_MOST_COMMANDS = 8
"""Commands, those used last."""
_ESCAPES = {"\n": r"\n", "\r": r"\r"}
_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+).*\.jar")  # more is a vendor's
_POLL_S = 0.01
_LAUNCHER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Launched:
    """A JVM that was started with settings of these names; when its input ends, it does.

    `info` is where it says its port.
    """

    process: "subprocess.Popen[bytes]"
    info: Path
    settings: Collection[str]

    def end(self) -> None:
        """End it, when nobody is to use it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        shutil.rmtree(self.info.parent, ignore_errors=True)

    def end_in_order(self, timeout_s: float) -> None:
        """Let it end by itself, which it does when its input ends; kill it if it does not."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        ended_in_time(self.process, timeout_s)

    def gateway(self) -> tuple[int, str] | None:
        """Wait for its port and secret; None when it has ended before it had them."""
        try:
            while not self.info.exists():
                if self.process.poll() is not None and not self.info.exists():
                    return None
                time.sleep(_POLL_S)
            reported = self.info.read_bytes()
        finally:
            shutil.rmtree(self.info.parent, ignore_errors=True)
        port, length = struct.unpack_from(">ii", reported)
        return port, reported[8 : 8 + length].decode()


def ended_in_time(jvm: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    """Wait for the end of a JVM that was told to end; one that takes longer is killed."""
    try:
        jvm.wait(timeout_s)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
        return False
    return True


def log_path() -> Path:
    """Where Spark's own messages go: $XDG_STATE_HOME/kipctl/spark.log, or ~/.local/state/..."""
    return state_folder() / "spark.log"


def spark_home(environment: Mapping[str, str]) -> Path:
    """The user's SPARK_HOME, or where PySpark is installed."""
    if own := environment.get("SPARK_HOME"):
        return Path(own)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def require_one_version(environment: Mapping[str, str]) -> None:
    """Raises UsageError when the user's SPARK_HOME is of another version than PySpark.

    One whose version cannot be read is let pass.
    """
    own, pyspark = (spark_version(spark_home(names)) for names in (environment, {}))
    if own and pyspark and own != pyspark:
        raise UsageError(
            f"SPARK_HOME, {environment['SPARK_HOME']}, is Spark {own}; "
            f"kipctl's PySpark is {pyspark}.",
            f"Set it to a Spark {pyspark}, or unset it: PySpark brings its own.",
        )


def spark_version(home: Path) -> str | None:
    """The version of the Spark that is in this folder, by the name of its core; None without."""
    names = (_CORE.fullmatch(path.name) for path in (home / "jars").glob("spark-core_*.jar"))
    return next((name[1] for name in names if name), None)


def configuration_folder(environment: Mapping[str, str]) -> Path:
    """Where the user's spark-defaults.conf is, if there is one."""
    return Path(environment.get("SPARK_CONF_DIR") or spark_home(environment) / "conf")


def launch(
    conf: Mapping[str, str], log: Path, options: Sequence[str], pass_fds: Sequence[int] = ()
) -> Launched:
    """Start a JVM with these settings of Spark's and options; its output goes to the log's end.

    Settings may be secret, and a command's words are for all users to read: they are in a file,
    for this user alone, until the JVM answers. It has the file descriptors `pass_fds` open as long
    as it lives.
    """
    environment = dict(os.environ)
    home = spark_home(environment)
    folder = Path(tempfile.mkdtemp(prefix="kipctl-"))  # its user's alone
    info, settings = folder / "gateway", folder / "settings"
    settings.touch(0o600)
    settings.write_text(java_properties.text(conf), encoding="utf-8")
    submitted = ["--properties-file", str(settings), "--load-spark-defaults", "pyspark-shell"]
    users = shlex.split(environment.get(_OPTIONS_VARIABLE, ""))
    if java := _java_command(home, conf, environment):
        command = [*java, *options, *users, _MAIN, *submitted]
    else:
        command = [str(home / "bin" / "spark-submit"), *submitted]
        environment[_OPTIONS_VARIABLE] = shlex.join([*options, *users])
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=pass_fds,
                process_group=0,  # Ctrl-C is kipctl's to answer
                env={
                    **dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable),
                    **environment,
                    "SPARK_HOME": str(home),
                    "PYTHONHASHSEED": environment.get("PYTHONHASHSEED", "0"),
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
                },
            )
    except OSError:
        shutil.rmtree(folder)
        raise
    return Launched(process, info, conf.keys())


def _java_command(
    home: Path, conf: Mapping[str, str], environment: Mapping[str, str]
) -> list[str] | None:
    """Java and its options, up to the main class; None where only a shell can tell them."""
    folder = configuration_folder(environment)
    if (folder / "spark-env.sh").exists():
        return None
    variables = {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(_READ) and name != _OPTIONS_VARIABLE
    }
    of_driver = {name: conf[name] for name in _OF_JVM if name in conf}
    java = java_program(environment)
    try:
        files = [
            java,
            home / "jars",
            *(folder / name for name in ("spark-defaults.conf", "java-opts")),
        ]
        made_of = [(str(file), file.stat().st_mtime_ns) for file in files if file.exists()]
        cache = cache_folder(environment)
        cache.mkdir(parents=True, exist_ok=True)
        key = hashlib.sha256(repr((made_of, variables, of_driver)).encode()).hexdigest()[:16]
        kept = cache / f"{key}.command"
        if kept.exists():
            os.utime(kept)
            return kept.read_text(encoding="utf-8").split("\0")
        command = _launcher_command(java, home, of_driver, environment)
        if command:
            _store_command(kept, command)
    except (OSError, UnicodeDecodeError, subprocess.SubprocessError):
        return None
    return command


def _launcher_command(
    java: Path, home: Path, conf: Mapping[str, str], environment: Mapping[str, str]
) -> list[str] | None:
    """What Spark's launcher says; None when it is not understood: spark-submit tells the reason."""
    settings = [word for item in conf.items() for word in ("--conf", "=".join(item))]
    own = {name: value for name, value in environment.items() if name != _OPTIONS_VARIABLE}
    launcher = shlex.split(environment.get("SPARK_LAUNCHER_OPTS", ""))
    asked = subprocess.run(
        [
            *(str(java), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *launcher),
            *("-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"),
            *(_MAIN, *settings, "pyspark-shell"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=own | {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        timeout=_LAUNCHER_TIMEOUT_S,
        check=False,
    )
    # A null and the line's end come first; each word has a null after it.
    words = asked.stdout.partition(b"\0\n")[2].decode().split("\0")
    return words[: words.index(_MAIN)] if asked.returncode == 0 and _MAIN in words else None


def _store_command(path: Path, command: Sequence[str]) -> None:
    beside = path.with_suffix(f".{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # it may hold secrets
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("\0".join(command))
    beside.replace(path)
    others = sorted(path.parent.glob("*.command"), key=lambda file: file.stat().st_mtime)
    for other in others[:-_MOST_COMMANDS]:
        other.unlink(missing_ok=True)


def java_program(environment: Mapping[str, str]) -> Path:
    """The java that Spark starts: JAVA_HOME's, else the PATH's. It need not exist."""
    home = environment.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")


def cache_folder(environment: Mapping[str, str]) -> Path:
    """$XDG_CACHE_HOME/kipctl/spark, or ~/.cache/kipctl/spark."""
    return own_folder("CACHE", environment) / "spark"
