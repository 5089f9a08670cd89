"""What a Spark session is set to: pure functions of where it runs and how much there is to read."""

import re
from collections.abc import Mapping

from kipctl.errors import UsageError
from kipctl.pipeline.launch import configuration_folder
from kipctl.pipeline.place import is_local

_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_UNLESS_SET = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.driver.memory": "2g",
}
"""What is as the user's own configuration has it, where that has it."""
_ALWAYS = {
    "spark.submit.deployMode": "client",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Each Column would tell the JVM the line of Python that made it: half of all calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_EXPRESSIONS_SETTING = "spark.sql.codegen.factoryMode"
_LIGHT = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Else one partition is exchanged for another where Spark thinks that a join's side is large.
    "spark.sql.maxSinglePartitionBytes": str(2**63 - 1),
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Few rows are gone through as they are in less time than it takes to compile code for them.
    "spark.sql.codegen.wholeStage": "false",
    _EXPRESSIONS_SETTING: "NO_CODEGEN",
    # For a user interface that is off, a text of the whole plan is made at each of its stages.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "1000",
}
"""Where little is read: planning, compiling and waiting for stages cost more than the rows."""
PARTITIONS_SETTING = "spark.sql.shuffle.partitions"
INITIAL_PARTITIONS_SETTING = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_BYTES_A_PARTITION = 16 << 20
"""A quarter of Spark's `advisoryPartitionSizeInBytes`: what is read is compressed."""
_LEAST_PARTITIONS = 8
_MOST_PARTITIONS = 2_000
"""What the first shuffle brings is a small part of what is read, and the driver knows each pair."""
_OPTIONS_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_OPTIONS_SETTINGS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
PLAINLY_COMPILED = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
_ENCRYPTION = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
_PROPERTY = re.compile(r"\s*([^\s#!=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*")


def session_settings(
    master: str,
    configured: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The settings that a session at this master starts with.

    Those that its user has `configured`, in spark-defaults.conf or by `--conf`, stay, except for
    the place, which is the `master`, with the driver on this machine, and for what an answer
    depends on. SPARK_DRIVER_MEMORY of the `environment` is such a setting, too.
    """
    configured = dict(configured or {})
    if memory := (environment or {}).get("SPARK_DRIVER_MEMORY"):
        configured.setdefault("spark.driver.memory", memory)
    on_loopback = is_local(master) or "//127.0.0.1:" in master or "//localhost:" in master
    return {
        **_UNLESS_SET,
        **(_LOOPBACK if on_loopback else {}),
        **configured,
        **_ALWAYS,
        "spark.master": master,
    }


def local_settings(
    cores: int, configured: Mapping[str, str], *, is_light: bool, compiles: bool = False
) -> dict[str, str]:
    """The settings of queries on this machine alone; `is_light` where little is read.

    A light session that `compiles` has expressions compiled, which pays where every row is gone
    through many times, as in a comparison. A JVM is asked more than one question, of several
    sizes, so they are not those it starts with. What its user has `configured` stays.
    """
    chosen = _LIGHT if is_light else {PARTITIONS_SETTING: str(max(4, 2 * cores))}
    if is_light and compiles:
        chosen = {**_LIGHT, _EXPRESSIONS_SETTING: "FALLBACK"}
    return {name: value for name, value in chosen.items() if name not in configured}


def connect_settings(configured: Mapping[str, str], *, is_light: bool) -> dict[str, str]:
    """The settings of a session with a Spark Connect server: what its user has `configured`, but
    for what an answer depends on. What is of the server as a whole, as memory, is its own."""
    answers = {name: value for name, value in _ALWAYS.items() if name.startswith("spark.sql.")}
    return {**(_LIGHT if is_light else {}), **configured, **answers}


def jvm_options(
    *, is_light: bool, configured: Mapping[str, str], environment: Mapping[str, str]
) -> list[str]:
    """Options for the driver's JVM: one with little to compute compiles its code plainly (C1).

    What it compiled has room: Java gives C1 alone 48 MiB, which a dozen analyses of one JVM fill,
    and then methods are dropped and compiled again. Its garbage is collected by one thread, unless
    its user has chosen a collector.
    """
    users = [environment.get(name, "") for name in _OPTIONS_VARIABLES]
    users += [configured.get(name, "") for name in _OPTIONS_SETTINGS]
    if not is_light:
        return []
    chosen = _COLLECTOR.search(" ".join(users))
    return [*PLAINLY_COMPILED, *([] if chosen else ["-XX:+UseSerialGC"])]


def initial_partitions(input_bytes: int, configured: int | None) -> int:
    """How many parts a shuffle begins with on a cluster; Spark joins small ones to larger ones.

    One for each 16 MiB to read, never fewer than its user has `configured`. Spark's own 200 are
    hundreds of tasks without rows for each step of a small analysis.
    """
    by_input = max(_LEAST_PARTITIONS, min(-(-input_bytes // _BYTES_A_PARTITION), _MOST_PARTITIONS))
    return max(by_input, configured or 0)


def hides_what_it_sends(configured: Mapping[str, str]) -> bool:
    """Whether processes of a cluster know each other by a secret, and encrypt what they send.

    Neither is so unless it is set. RPC takes nothing from `spark.ssl.enabled`.
    """

    def is_on(name: str) -> bool:
        return configured.get(name, "").strip().lower() == "true"

    return is_on("spark.authenticate") and any(map(is_on, _ENCRYPTION))


def defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in the spark-defaults.conf of the user's own Spark configuration, if any."""
    file = configuration_folder(environment) / "spark-defaults.conf"
    try:
        return properties(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else str(wrong)
        raise UsageError(f"{file} cannot be read: {why}.", "It is to be UTF-8.") from None


def properties(text: str) -> dict[str, str]:
    """The settings in a spark-defaults.conf: a name and its value a line, apart by space or =."""
    matches = map(_PROPERTY.fullmatch, text.splitlines())
    return {match[1]: match[2] for match in matches if match}
