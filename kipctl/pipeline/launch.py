"""Starts Spark's JVM, by `spark-submit`. Nothing of Spark is imported: its JVM starts while Python
still reads PySpark.
"""

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

_OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
"""What a user's environment has for the JVM comes after what kipctl has."""
_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+).*\.jar")  # more is a vendor's
_POLL_S = 0.01


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
    environment = os.environ
    home = spark_home(environment)
    folder = Path(tempfile.mkdtemp(prefix="kipctl-"))  # its user's alone
    info, settings = folder / "gateway", folder / "settings"
    settings.touch(0o600)
    settings.write_text(java_properties.text(conf), encoding="utf-8")
    submit = [str(home / "bin" / "spark-submit"), "--properties-file", str(settings)]
    users = shlex.split(environment.get(_OPTIONS_VARIABLE, ""))
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*submit, "--load-spark-defaults", "pyspark-shell"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=pass_fds,
                process_group=0,  # Ctrl-C is kipctl's to answer
                env={
                    **dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable),
                    **environment,
                    "SPARK_HOME": str(home),
                    _OPTIONS_VARIABLE: shlex.join([*options, *users]),
                    "PYTHONHASHSEED": environment.get("PYTHONHASHSEED", "0"),
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
                },
            )
    except OSError:
        shutil.rmtree(folder)
        raise
    return Launched(process, info, conf.keys())


def java_program(environment: Mapping[str, str]) -> Path:
    """The java that Spark starts: JAVA_HOME's, else the PATH's. It need not exist."""
    home = environment.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")


def cache_folder(environment: Mapping[str, str]) -> Path:
    """$XDG_CACHE_HOME/kipctl/spark, or ~/.cache/kipctl/spark."""
    return own_folder("CACHE", environment) / "spark"
