"""How Java's performance tools are called, in any version of Kafka."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from kipctl import java_properties
from kipctl.load.clients.client import ConsumerLoad, ProducerLoad
from kipctl.security import msk
from kipctl.security.tokens import MskToken
from kipctl.transport.access import Access
from kipctl.urls import without_login

# The flags of Kafka's own scripts, which real clients are run with; C2 is left on (-XX:Tiered...
# is not lowered as for brokers of the lab), so that latency is steady once the code is warm. The
# heap has its full size from the start: it is not seen to grow.
_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Duser.language=en",  # numbers are printed with a decimal point
    "-Duser.country=US",
)
_TOOLS = "org.apache.kafka.tools"
_NEW_NAMES = (4, 3)
"""Since this version `--producer.config`, `--consumer.config` and `--messages` are deprecated."""

APP_INFO = "org.apache.kafka.common.utils.AppInfoParser"
"""Java's clients tell through it, when they are made, their version and the time."""
NETWORK = "org.apache.kafka.clients.NetworkClient"

_LOG4J = f"""\
log4j.rootLogger=ERROR, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%r %p %m%n
log4j.logger.{APP_INFO}=INFO
log4j.logger.{NETWORK}=WARN
"""
_LOG4J2 = f"""\
status=ERROR
appender.stderr.type=Console
appender.stderr.name=stderr
appender.stderr.target=SYSTEM_ERR
appender.stderr.layout.type=PatternLayout
appender.stderr.layout.pattern=%r %p %m%n
rootLogger.level=ERROR
rootLogger.appenderRef.stderr.ref=stderr
logger.info.name={APP_INFO}
logger.info.level=INFO
logger.network.name={NETWORK}
logger.network.level=WARN
"""
_PROPERTIES = "client.properties"
FILES = {"log4j.properties": _LOG4J, "log4j2.properties": _LOG4J2}
"""What Java needs in its folder: stdout is for the tool alone, stderr for the client."""


_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Since Kafka 3.9.1 clients ask no token endpoint, and read no file, that it does not name."""


def system_properties(access: Access) -> dict[str, str]:
    """What a JVM is told for how the cluster is reached; others of the machine see it."""
    url, sasl = access.properties.get(_TOKEN_URL, ""), access.security.sasl
    token = sasl.token if sasl else None
    endpoint = {_ALLOWED_URLS: url} if url and url == without_login(url) else {}
    # Java does not look at the variable of MIT's library, which kipctl logs in with.
    file, _, _ = os.environ.get("KRB5_CONFIG", "").partition(":")
    kerberos = {"java.security.krb5.conf": file} if file and sasl and sasl.kerberos else {}
    # By itself AWS's library looks for the region in the environment alone.
    region = {"aws.region": token.region} if isinstance(token, MskToken) else {}
    return endpoint | kerberos | region


def jvm_arguments(classpath: tuple[Path, ...], heap_mb: int, folder: Path) -> list[str]:
    """What comes before the main class; AWS's library is behind the jars, where there is one."""
    return [
        f"-Xms{heap_mb}m",
        f"-Xmx{heap_mb}m",
        *_JVM,
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "-cp",
        ":".join((*map(str, classpath), *msk.java_library())),
    ]


def producer_arguments(version: str, load: ProducerLoad, folder: Path) -> list[str]:
    """The main class and its arguments."""
    arguments = [f"{_TOOLS}.ProducerPerformance", "--topic", load.topic]
    arguments += ["--num-records", str(load.num_records), "--record-size", str(load.record_size)]
    arguments += ["--throughput", str(load.throughput if load.throughput > 0 else -1)]
    option = "--command-config" if _has_new_names(version) else "--producer.config"
    arguments += [option, str(folder / _PROPERTIES)]
    if load.transaction_ms > 0:
        arguments += ["--transaction-duration-ms", str(load.transaction_ms)]
        # Kafka before 3.9 has a default of its own for this option, which beats the property.
        if transactional_id := load.properties.get("transactional.id"):
            arguments += ["--transactional-id", transactional_id]
    return arguments


def consumer_arguments(version: str, load: ConsumerLoad, access: Access, folder: Path) -> list[str]:
    """The main class and its arguments.

    The tool overrides some properties by options of its own, with defaults that are not those of
    Java's consumer: they are given as the properties say.
    """
    arguments = [f"{_TOOLS}.ConsumerPerformance", "--bootstrap-server", str(access)]
    arguments += ["--topic", load.topic, "--group", load.group]
    arguments += ["--timeout", str(round(load.timeout_s * 1000))]
    new = _has_new_names(version)
    arguments += ["--num-records" if new else "--messages", str(load.num_records)]
    arguments += ["--command-config" if new else "--consumer.config", str(folder / _PROPERTIES)]
    arguments += ["--fetch-size", load.properties.get("max.partition.fetch.bytes", "1048576")]
    arguments += ["--socket-buffer-size", load.properties.get("receive.buffer.bytes", "65536")]
    if load.properties.get("auto.offset.reset") == "latest":
        arguments += ["--from-latest"]
    return arguments


def write_files(folder: Path, properties: Mapping[str, str], access: Access) -> None:
    """All that the arguments speak of. Secrets are in a file that only its owner can read.

    Raises UsageError.
    """
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="ascii")
    connection = access.java()
    path = folder / _PROPERTIES
    path.touch(mode=0o600)
    path.write_text(java_properties.text({**connection, **properties}), encoding="ascii")


def _has_new_names(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= _NEW_NAMES
