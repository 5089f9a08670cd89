"""What brokers count themselves, read over HTTP from the Prometheus JMX exporter inside them.

Requests and errors are Kafka's `kafka.network:type=RequestMetrics` meters (class RequestChannel),
whose Count is exact, from the start of the broker on. A request is counted once its answer has been
sent, so its client may know of it a moment before the count does. Requests of clients and of the
cluster's own brokers are counted together; reading the metrics is no Kafka request.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kipctl.cluster.snapshot import Broker
from kipctl.errors import RefusedError, TimedOutError, UnreachableError, UsageError

T = TypeVar("T")
R = TypeVar("R")
_AT_ONCE = 32
TIMEOUT_S = 10.0
"""An exporter that exports every bean takes seconds."""

RequestCounts = Mapping[tuple[str, int], int]
"""Requests by API, as Kafka names it, and version. Fetch is all fetches; FetchConsumer and
FetchFollower are the same ones by reader."""

ErrorCounts = Mapping[tuple[str, str], int]
"""Errors in answers by API and error code's name; NONE is counted too."""

_KINDS = {
    # By the example configuration for Kafka that comes with the exporter, which Strimzi has too.
    ("kafka_network_requestmetrics_requests_total", None): "requests",
    ("kafka_network_requestmetrics_errors_total", None): "errors",
    ("kafka_server_replicamanager_underreplicatedpartitions", None): "under_replicated",
    ("kafka_server_brokertopicmetrics_bytesout_total", None): "bytes_out",
    ("kafka_server_socket_server_metrics_connections_software", None): "connections",
    ("kafka_server_app_info_version", None): "app_info",
    # Without any rules: the attribute, with the bean's keys as labels.
    ("kafka_network_requestmetrics_count", "RequestsPerSec"): "requests",
    ("kafka_network_requestmetrics_count", "ErrorsPerSec"): "errors",
    ("kafka_server_replicamanager_value", "UnderReplicatedPartitions"): "under_replicated",
    ("kafka_server_brokertopicmetrics_count", "BytesOutPerSec"): "bytes_out",
    ("kafka_server_app_info_starttimems", None): "app_info",
}
"""What is read, by the sample's name in lower case and its label `name`."""


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """One broker's counts since it started; None is what its exporter does not report.

    `connections` are those open now by client software, (name, version). Bytes are those that
    clients were sent.
    """

    url: str
    requests: RequestCounts
    errors: ErrorCounts
    broker: int | None = None
    kafka_version: str | None = None
    connections: Mapping[tuple[str, str], int] | None = None
    under_replicated: int | None = None
    bytes_out: int | None = None

    @property
    def host(self) -> str:
        """The host in the URL."""
        return httpx.URL(self.url).host

    def requests_of(self, api: str) -> int:
        """All requests of an API, whatever their version."""
        return sum(count for (name, _), count in self.requests.items() if name == api)

    def errors_named(self, *errors: str) -> int:
        """How often answers of any API had one of these errors."""
        return sum(count for (_, name), count in self.errors.items() if name in errors)


def at_once(ask: Callable[[T], R], of: Sequence[T]) -> list[R]:
    """What `ask` returns for each of these; exporters that hang are waited for at the same time."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(ask, of))


def scrape(url: str, timeout_s: float = TIMEOUT_S) -> BrokerMetrics:
    """Ask an exporter once.

    Raises what `fetch` does, and UsageError when the URL is not that of a broker's metrics.
    """
    return parse(fetch(url, timeout_s), url)


def fetch(url: str, timeout_s: float = TIMEOUT_S) -> str:
    """What an exporter answers.

    Raises UnreachableError, TimedOutError, RefusedError when it answers with an HTTP error, and
    UsageError when the URL is none.
    """
    try:
        answer = httpx.get(url, timeout=timeout_s, follow_redirects=True)
        answer.raise_for_status()
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise UsageError(
            f"{url!r} is no URL of metrics: {str(error).rstrip('.')}.",
            "Write it as http://HOST:PORT/metrics.",
        ) from None
    except httpx.TimeoutException:
        raise TimedOutError(
            f"The metrics at {url} did not come in {timeout_s:g} s.",
            "Check that the broker is not overloaded, and that its exporter exports little.",
        ) from None
    except httpx.HTTPStatusError as error:
        status = f"{error.response.status_code} {error.response.reason_phrase}".strip()
        raise RefusedError(
            f"{url} answers {status}.", "Check the path: the exporter's is /metrics."
        ) from None
    except httpx.HTTPError as error:
        raise UnreachableError(
            f"The metrics at {url} cannot be reached: {str(error).rstrip('.')}.",
            "Check the URL, and that the broker runs with the JMX exporter.",
        ) from None
    return answer.text


def samples_in(text: str, url: str) -> list[Sample]:
    """All samples in Prometheus' text format. Raises UsageError when it is none."""
    try:
        return [s for family in text_string_to_metric_families(text) for s in family.samples]
    except ValueError as error:
        raise UsageError(
            f"{url} does not answer with metrics in Prometheus' text format: {str(error)[:80]!r}.",
            "Give the URL of a broker's JMX exporter, such as http://HOST:PORT/metrics.",
        ) from None


def parse(text: str, url: str) -> BrokerMetrics:
    """Read Prometheus' text format. Raises UsageError when it holds no broker's metrics."""
    requests: Counter[tuple[str, int]] = Counter()
    errors: Counter[tuple[str, str]] = Counter()
    connections: Counter[tuple[str, str]] = Counter()
    numbers: dict[str, int] = {}
    broker = version = None
    for sample in samples_in(text, url):
        labels = sample.labels
        kind = _KINDS.get((sample.name.lower(), labels.get("name")))
        if kind is None or "topic" in labels:  # a topic's share is in the broker's
            continue
        count = int(sample.value)
        match kind:
            case "requests":
                requests[labels["request"], int(labels["version"])] += count
            case "errors":
                errors[labels["request"], labels["error"]] += count
            case "connections":
                software = labels["client_software_name"], labels["client_software_version"]
                connections[software] += count
            case "app_info":
                broker = int(labels["id"])
                version = labels.get("version", version)
            case _:
                numbers[kind] = count
    if not requests:
        raise UsageError(
            f"{url} has no request counts of a Kafka broker.",
            "Let its exporter export kafka.network:type=RequestMetrics, and give a broker's URL.",
        )
    return BrokerMetrics(
        url,
        dict(requests),
        dict(errors),
        broker,
        version,
        {of: count for of, count in connections.items() if count} if connections else None,
        **numbers,
    )


def broker_of(metrics: BrokerMetrics, brokers: Iterable[Broker]) -> int | None:
    """Which broker metrics are of: what they say, else the one broker that has the URL's host."""
    if metrics.broker is not None:
        return metrics.broker
    on_host = [broker.id for broker in brokers if broker.host == metrics.host]
    return on_host[0] if len(on_host) == 1 else None
