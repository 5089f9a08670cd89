"""The Prometheus JMX exporter, an agent inside a broker that serves its metrics over HTTP.

It is told to look at few of a broker's beans: that takes a fraction of a second, all of them take
seconds. Names are those of the example configuration for Kafka that comes with the exporter, which
most clusters use.
"""

from collections.abc import Callable
from pathlib import Path

from kipctl.lab.ivy import Download, Module, fetched
from kipctl.lab.java import Java
from kipctl.lab.properties import HOST

VERSION = "1.0.1"
CONFIG_NAME = "exporter.yml"

CONFIG = """\
startDelaySeconds: 0
lowercaseOutputName: true
includeObjectNames:
  - "kafka.network:type=RequestMetrics,name=RequestsPerSec,*"
  - "kafka.network:type=RequestMetrics,name=ErrorsPerSec,*"
  - "kafka.server:type=app-info,*"
  - "kafka.server:type=socket-server-metrics,clientSoftwareName=*,*"
  - "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"
  - "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec"
  - "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec"
  - "kafka.server:type=ReplicaManager,*"
rules:
  - pattern: 'kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*, (.+)=(.+), (.+)=(.+)><>Count'
    name: kafka_$1_$2_$3_total
    type: COUNTER
    labels:
      "$4": "$5"
      "$6": "$7"
  - pattern: 'kafka.(\\w+)<type=(.+), name=(.+)PerSec\\w*><>Count'
    name: kafka_$1_$2_$3_total
    type: COUNTER
  - pattern: 'kafka.(\\w+)<type=(.+), name=(.+)><>Value'
    name: kafka_$1_$2_$3
    type: GAUGE
  - pattern: 'kafka.server<type=app-info, id=(\\d+)><>Version: (.+)'
    name: kafka_server_app_info_version
    type: GAUGE
    value: 1
    labels:
      id: "$1"
      version: "$2"
  - pattern: >-
      kafka.server<type=socket-server-metrics, clientSoftwareName=(.+),
      clientSoftwareVersion=(.+), listener=(.+), networkProcessor=(.+)><>connections
    name: kafka_server_socket_server_metrics_connections_software
    type: GAUGE
    labels:
      client_software_name: "$1"
      client_software_version: "$2"
      listener: "$3"
      network_processor: "$4"
"""


def fetched_exporter(java: Java, progress: Callable[[str], None]) -> Path:
    """The agent's jar. Raises what `ivy.fetched` raises."""
    name = "jmx_prometheus_javaagent"
    download = Download(
        title=f"JMX exporter {VERSION}",
        folder=f"{name}-{VERSION}",
        size_mb=3,
        modules=(Module("io.prometheus.jmx", name, VERSION),),
        otherwise="leave out --metrics",
        choose="Leave out --metrics.",
    )
    _, (jar,) = fetched(download, java, progress)
    return jar


def agent_option(jar: Path, port: int, config: Path) -> str:
    """The option that lets Java load the agent."""
    return f"-javaagent:{jar}={HOST}:{port}:{config}"
