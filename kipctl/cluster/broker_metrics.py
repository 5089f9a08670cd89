"""What brokers count themselves, read over HTTP from the Prometheus JMX exporter inside them.

Requests and errors are Kafka's `kafka.network:type=RequestMetrics` meters (class RequestChannel),
whose Count is exact, from the start of the broker on. A request is counted once its answer has been
sent, so its client may know of it a moment before the count does. Requests of clients and of the
cluster's own brokers are counted together; reading the metrics is no Kafka request.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kipctl.cluster.snapshot import Broker
from kipctl.errors import RefusedError, TimedOutError, UnreachableError, UsageError
from kipctl.http_exchange import exchange
from kipctl.urls import without_login

TIMEOUT_S = 10.0
"""An exporter that exports every bean takes seconds."""
ALL_TIMEOUT_S = 1.5 * TIMEOUT_S
"""For all of a cluster's, however many."""
_LONGEST_NAME, _LONGEST_LINE, _MOST_LINES = 256, 1024, 50_000
"""Far more than any broker has of what is asked for; the parser takes long for lines that are."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

RequestCounts = Mapping[tuple[str, int], int]
"""Requests by API, as Kafka names it, and version. Fetch is all fetches; FetchConsumer and
FetchFollower are the same ones by reader."""

ErrorCounts = Mapping[tuple[str, str], int]
"""Errors in answers by API and error code's name; NONE is counted too."""

APP_INFO = ("kafka_server_app_info_version", "kafka_server_app_info_starttimems")
"""By the example configuration and without rules; its label `id` is the broker's."""
_KINDS = {
    (APP_INFO[0], None): "app_info",
    (APP_INFO[1], None): "app_info",
    # By the example configuration for Kafka that comes with the exporter, which Strimzi has too.
    ("kafka_network_requestmetrics_requests_total", None): "requests",
    ("kafka_network_requestmetrics_errors_total", None): "errors",
    ("kafka_server_replicamanager_underreplicatedpartitions", None): "under_replicated",
    ("kafka_server_brokertopicmetrics_bytesout_total", None): "bytes_out",
    ("kafka_server_socket_server_metrics_connections_software", None): "connections",
    # Without any rules: the attribute, with the bean's keys as labels.
    ("kafka_network_requestmetrics_count", "RequestsPerSec"): "requests",
    ("kafka_network_requestmetrics_count", "ErrorsPerSec"): "errors",
    ("kafka_server_replicamanager_value", "UnderReplicatedPartitions"): "under_replicated",
    ("kafka_server_brokertopicmetrics_count", "BytesOutPerSec"): "bytes_out",
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
        return urlsplit(self.url).hostname or ""

    def requests_of(self, api: str) -> int:
        """All requests of an API, whatever their version."""
        return sum(count for (name, _), count in self.requests.items() if name == api)

    def errors_named(self, *errors: str) -> int:
        """How often answers of any API had one of these errors."""
        return sum(count for (_, name), count in self.errors.items() if name in errors)


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
    shown = without_login(url)
    try:
        answer = exchange(url, timeout_s)
    except UsageError:
        raise UsageError(
            f"{shown!r} is no URL of metrics.", "Write it as http://HOST:PORT/metrics."
        ) from None
    except TimedOutError:
        raise TimedOutError(
            f"The metrics at {shown} did not come in {timeout_s:g} s.",
            "Check that the broker is not overloaded, and that its exporter exports little.",
        ) from None
    except UnreachableError as error:
        raise UnreachableError(
            f"The metrics at {shown} cannot be reached: {error.what}.",
            "Check the URL, and that the broker runs with the JMX exporter.",
        ) from None
    if answer.status != 200:
        raise RefusedError(
            f"{shown} answers {answer.status_text}.",
            "Check the path, the exporter's is /metrics: kipctl follows no redirect.",
        )
    return answer.body.decode("utf-8", "replace")


def samples_in(
    text: str, url: str, names: Iterable[str], *, of_topics: bool = True
) -> list[Sample]:
    """The samples of these names in Prometheus' text format; letters may be small or capital.

    Those of single topics are left out on demand. Raises UsageError when it is no such text.
    """
    try:
        families = text_string_to_metric_families("".join(_lines_of(names, of_topics, text)))
        return [sample for family in families for sample in family.samples]
    except Exception as error:  # the parser declares none
        raise UsageError(
            f"{without_login(url)} does not answer with metrics in Prometheus' text format:"
            f" {str(error)[:80]!r}.",
            "Give the URL of a broker's JMX exporter, such as http://HOST:PORT/metrics.",
        ) from None


def _lines_of(names: Iterable[str], of_topics: bool, text: str) -> Iterator[str]:
    """The lines about these names, and the first, which shows whether it is metrics at all.

    An exporter may have a hundred thousand others. Raises ValueError for more than can be read.
    """
    # A counter's samples may have its type's line without their suffix.
    starts = tuple(name.lower().removesuffix("_total") for name in names)
    kept = 0
    for number, match in enumerate(_LINE.finditer(text)):  # StringIO takes four bytes a character
        line = match[0]
        if number and not line[:_LONGEST_NAME].lower().removeprefix("# type ").startswith(starts):
            continue
        if not of_topics and 'topic="' in line:
            continue
        kept += 1
        if kept > _MOST_LINES or len(line) > _LONGEST_LINE:
            raise ValueError("too many lines, or one that is too long")
        yield line


def parse(text: str, url: str) -> BrokerMetrics:
    """Read Prometheus' text format. Raises UsageError when it holds no broker's metrics."""
    shown = without_login(url)
    requests: Counter[tuple[str, int]] = Counter()
    errors: Counter[tuple[str, str]] = Counter()
    connections: Counter[tuple[str, str]] = Counter()
    numbers: dict[str, int] = {}
    version = None
    samples = samples_in(text, url, {name for name, _ in _KINDS}, of_topics=False)
    for sample in samples:
        labels = sample.labels
        kind = _KINDS.get((sample.name.lower(), labels.get("name")))
        if kind is None or "topic" in labels:  # a topic's share is in the broker's
            continue
        try:
            match kind:
                case "requests":
                    requests[labels["request"], int(labels["version"])] += _count(sample)
                case "errors":
                    errors[labels["request"], labels["error"]] += _count(sample)
                case "connections":
                    software = labels["client_software_name"], labels["client_software_version"]
                    connections[software] += _count(sample)
                case "app_info":
                    version = labels.get("version", version)
                case _:
                    numbers[kind] = _count(sample)
        except (KeyError, ValueError):
            raise UsageError(
                f"{shown} counts {kind.replace('_', ' ')} in a way that is not Kafka's:"
                f" {f'{sample.name}{labels} {sample.value}'[:120]!r}.",
                "See the rules of its JMX exporter, and that the URL is a broker's.",
            ) from None
    if not requests:
        raise UsageError(
            f"{shown} has no request counts of a Kafka broker.",
            "Let its exporter export kafka.network:type=RequestMetrics, and give a broker's URL.",
        )
    return BrokerMetrics(
        shown,
        dict(requests),
        dict(errors),
        broker_in(samples),
        version,
        {client: count for client, count in connections.items() if count} if connections else None,
        **numbers,
    )


def _count(sample: Sample) -> int:
    """As Kafka counts, in 63 bits. Raises ValueError, also for what is no number."""
    if not 0 <= sample.value < 1 << 63:
        raise ValueError
    return int(sample.value)


def broker_in(samples: Iterable[Sample]) -> int | None:
    """Which broker they say that they are of; None where they do not."""
    ids = (sample.labels.get("id", "") for sample in samples if sample.name.lower() in APP_INFO)
    return next((int(id) for id in ids if re.fullmatch("[0-9]{1,10}", id)), None)


def broker_of(metrics: BrokerMetrics, brokers: Iterable[Broker]) -> int | None:
    """Which broker metrics are of: what they say, else the one broker that has the URL's host."""
    if metrics.broker is not None:
        return metrics.broker
    on_host = [broker.id for broker in brokers if broker.host == metrics.host]
    return on_host[0] if len(on_host) == 1 else None
