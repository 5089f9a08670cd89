"""What Spark, py4j and a JVM that does not start have to say: into a log file, and as an error."""

import logging
import re
import warnings
from pathlib import Path

from pyspark.logger import PySparkLogger

from kipctl.errors import PipelineError

_OWN_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's, with handlers of their own: they would print every failed query on stderr."""
_REFUSED_OPTION = re.compile(
    r"^Error occurred during initialization of VM\n(.+)$"
    r"|^(?!Unrecognized option: --add-)(.+)\nError: Could not create the Java Virtual Machine",
    re.MULTILINE,
)
"""But for what a Java that is too old says of options that Spark gives it."""
_WHY_NOT_STARTED = re.compile(r'^Exception in thread "main" (?:[\w$.]+: )?(.+)$', re.MULTILINE)


def why_not_begun(log: Path) -> PipelineError:
    """What a JVM that has exited before it answered wrote to its log, as an error."""
    text = log.read_text(errors="replace")
    if "HADOOP_CONF_DIR" in text:
        return PipelineError(
            "Spark finds no Hadoop configuration, and --master yarn needs it.",
            "Set HADOOP_CONF_DIR to the folder that holds core-site.xml and yarn-site.xml.",
        )
    if refused := _REFUSED_OPTION.search(text):
        return PipelineError(
            f"Java does not start with its options: {refused[1] or refused[2]}.",
            "Correct --conf spark.driver.memory or what else sets them (spark-defaults.conf, "
            f"SPARK_SUBMIT_OPTS).\nIts own words are in {log}.",
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
