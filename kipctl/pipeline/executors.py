"""The executors of a cluster: asked for, waited for, and why there are none."""

import re
from collections.abc import Sequence
from pathlib import Path

import pyspark
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from kipctl.errors import PipelineError
from kipctl.pipeline.jvm import located_on
from kipctl.pipeline.settings import (
    INITIAL_PARTITIONS_SETTING,
    PARTITIONS_SETTING,
    initial_partitions,
)

_LOGGERS = (
    "org.apache.spark.deploy.client.StandaloneAppClient",
    "org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint",
    "org.apache.spark.scheduler.cluster",
    "org.apache.spark.deploy.yarn",
)
"""They log at INFO what became of the master, and of executors that were asked for."""
_ASKED = "Connecting to master"
_TAKEN_IN = "Connected to Spark cluster"
_NOT_UNDERSTOOD = re.compile(r"Could not connect to \S+: (?:[\w$.]+: )*(.*)")
_EXECUTOR_ENDED = re.compile(r"Executor app-\S+ removed: (.*)")
_REGISTERED = "Registered executor"
_MOST_ENDED = 10
"""Executors that end before one has registered: a master goes on starting others for ever."""


def log_executors(gateway: JavaGateway) -> None:
    """Let the JVM log what becomes of executors, whatever else it is to log."""
    levels = gateway.jvm.org.apache.logging.log4j
    for name in _LOGGERS:
        levels.core.config.Configurator.setLevel(name, levels.Level.INFO)


def keep_ending(log: Path, log_begins: int) -> bool:
    """Whether executors only end, by the log of this session, which begins at that byte."""
    text = _of_session(log, log_begins)
    return _REGISTERED not in text and len(_EXECUTOR_ENDED.findall(text)) >= _MOST_ENDED


def why_no_executor(master: str, log: Path, log_begins: int) -> PipelineError | None:
    """Why a master gave no executor, or those it started have ended; None where no log says it.

    `log_begins` is where the part of the log begins, in bytes, that is of this session.
    """
    text = _of_session(log, log_begins)
    if _ASKED in text and _TAKEN_IN not in text:
        reasons = _NOT_UNDERSTOOD.findall(text)
        return PipelineError(
            f"{master} does not answer as the master of a Spark {pyspark.__version__}"
            f"{': ' + reasons[-1][:300] if reasons else ''}.",
            "See that it is one, of this version, and not overloaded. "
            f"The driver's own words are in {log}.",
        )
    ended = _EXECUTOR_ENDED.findall(text)
    if not ended or _REGISTERED in text:
        return None
    return PipelineError(
        f"Spark at {master} started executors, and they ended: {ended[-1]}.",
        "What they wrote is on their machines, in Spark's work/app-*/*/stderr. "
        f"The driver's own words are in {log}.",
    )


def _of_session(log: Path, log_begins: int) -> str:
    return log.read_bytes()[log_begins:].decode(errors="replace") if log.exists() else ""


def set_partitions(session: SparkSession, inputs: Sequence[str]) -> None:
    """Let shuffles begin with parts by the size of what is read: small ones are joined later."""
    configured = session.sparkContext.getConf().get(PARTITIONS_SETTING, None)
    users = session.sparkContext.getConf().get(INITIAL_PARTITIONS_SETTING, configured)
    parts = initial_partitions(_input_bytes(session, inputs), int(users) if users else None)
    session.conf.set(INITIAL_PARTITIONS_SETTING, parts)


def _input_bytes(session: SparkSession, inputs: Sequence[str]) -> int:
    """The bytes of the files that the paths and wildcards stand for, on any file system."""
    total = 0
    for text in inputs:
        try:
            system, path = located_on(session, text)
            for status in system.globStatus(path) or ():
                # Of a file it is known: asking an object store takes as long as a listing.
                if status.isFile():
                    total += status.getLen()
                else:
                    total += system.getContentSummary(status.getPath()).getLength()
        except Py4JJavaError:  # who reads it says what is wrong with it
            continue
    return total
