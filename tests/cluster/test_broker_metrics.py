"""Metrics of brokers: what is read from an exporter's text, and what is said when it cannot be."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from http_peers import TRICKLES, peer, saying

from kipctl.cluster.broker_metrics import BrokerMetrics, parse, scrape
from kipctl.errors import KipctlError, RefusedError, TimedOutError, UnreachableError, UsageError
from kipctl.http_exchange import LARGEST_BODY

URL = "http://broker-1:7071/metrics"

BY_RULES = """\
# HELP jvm_memory_used_bytes Used bytes
# TYPE jvm_memory_used_bytes gauge
jvm_memory_used_bytes{area="heap"} NaN
# TYPE kafka_network_requestmetrics_requests_total counter
kafka_network_requestmetrics_requests_total{request="Metadata",version="12"} 3.0
kafka_network_requestmetrics_requests_total{request="Metadata",version="13"} 1.2345678E7
kafka_network_requestmetrics_requests_total{request="Produce",version="11"} 9.0
# TYPE kafka_network_requestmetrics_errors_total counter
kafka_network_requestmetrics_errors_total{error="NONE",request="Produce"} 7.0
kafka_network_requestmetrics_errors_total{error="NOT_LEADER_OR_FOLLOWER",request="Produce"} 2.0
kafka_network_requestmetrics_errors_total{error="NOT_LEADER_OR_FOLLOWER",request="Fetch"} 4.0
# TYPE kafka_server_app_info_version gauge
kafka_server_app_info_version{id="1",version="4.3.1"} 1.0
kafka_server_socket_server_metrics_connections_software{client_software_name="librdkafka",\
client_software_version="2.11.0",listener="PLAINTEXT",network_processor="0"} 2.0
kafka_server_socket_server_metrics_connections_software{client_software_name="librdkafka",\
client_software_version="2.11.0",listener="PLAINTEXT",network_processor="1"} 1.0
kafka_server_socket_server_metrics_connections_software{client_software_name="kipctl",\
client_software_version="0.1.0",listener="PLAINTEXT",network_processor="1"} 0.0
kafka_server_replicamanager_underreplicatedpartitions 5.0
kafka_server_brokertopicmetrics_bytesout_total 4096.0
kafka_server_brokertopicmetrics_bytesout_total{topic="orders"} 1024.0
"""

WITHOUT_RULES = """\
kafka_network_RequestMetrics_Count{name="RequestsPerSec",request="Metadata",version="12",} 3.0
kafka_network_RequestMetrics_Count{name="RequestsPerSec",request="Fetch",version="17",} 8.0
kafka_network_RequestMetrics_OneMinuteRate{name="RequestsPerSec",request="Fetch",version="17",} 0.5
kafka_network_RequestMetrics_Count{name="ErrorsPerSec",request="Fetch",error="FENCED_LEADER_EPOCH",\
} 2.0
kafka_network_RequestMetrics_Count{name="TotalTimeMs",request="Fetch",} 8.0
kafka_server_ReplicaManager_Value{name="UnderReplicatedPartitions",} 1.0
kafka_server_ReplicaManager_Value{name="LeaderCount",} 6.0
kafka_server_BrokerTopicMetrics_Count{name="BytesOutPerSec",} 77.0
kafka_server_BrokerTopicMetrics_Count{name="BytesOutPerSec",topic="orders",} 70.0
kafka_server_app_info_StartTimeMs{id="3",} 1.7E12
kafka_server_app_info_start_time_ms{client_id="3",} 1.7E12
"""


def test_counts_as_the_exporters_example_configuration_names_them() -> None:
    metrics = parse(BY_RULES, URL)
    assert metrics == BrokerMetrics(
        url=URL,
        requests={("Metadata", 12): 3, ("Metadata", 13): 12345678, ("Produce", 11): 9},
        errors={
            ("Produce", "NONE"): 7,
            ("Produce", "NOT_LEADER_OR_FOLLOWER"): 2,
            ("Fetch", "NOT_LEADER_OR_FOLLOWER"): 4,
        },
        broker=1,
        kafka_version="4.3.1",
        connections={("librdkafka", "2.11.0"): 3},
        under_replicated=5,
        bytes_out=4096,
    )
    assert metrics.requests_of("Metadata") == 12345681
    assert metrics.requests_of("Fetch") == 0
    assert metrics.errors_named("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH") == 6


def test_counts_of_an_exporter_without_rules() -> None:
    assert parse(WITHOUT_RULES, URL) == BrokerMetrics(
        url=URL,
        requests={("Metadata", 12): 3, ("Fetch", 17): 8},
        errors={("Fetch", "FENCED_LEADER_EPOCH"): 2},
        broker=3,
        kafka_version=None,
        connections=None,
        under_replicated=1,
        bytes_out=77,
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<html><body>hello</body></html>", "does not answer with metrics in Prometheus'"),
        ('{"status": "up"}', "does not answer with metrics in Prometheus'"),
        ("", "has no request counts of a Kafka broker"),
        ("node_load1 0.5\n", "has no request counts of a Kafka broker"),
    ],
)
def test_what_is_no_brokers_metrics_is_named(text: str, told: str) -> None:
    with pytest.raises(UsageError) as wrong:
        parse(text, URL)
    assert wrong.value.what.startswith(f"{URL} {told}")


@pytest.mark.parametrize(
    "line",
    [
        'kafka_network_requestmetrics_requests_total{version="1"} 1',
        'kafka_network_requestmetrics_requests_total{request="Fetch"} 1',
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="x"} 1',
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="1"} NaN',
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="1"} +Inf',
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="1"} -1',
        'kafka_network_requestmetrics_requests_total{request="Fetch",version="1"} 1e300',
        'kafka_network_requestmetrics_errors_total{error="NONE"} 1',
        'kafka_network_requestmetrics_errors_total{request="Fetch"} 1',
        "kafka_server_socket_server_metrics_connections_software 1",
        "kafka_server_replicamanager_underreplicatedpartitions NaN",
        "kafka_server_brokertopicmetrics_bytesout_total -Inf",
    ],
)
def test_what_kafka_does_not_count_so_is_named_in_one_line(line: str) -> None:
    with pytest.raises(UsageError, match=r"in a way that is not Kafka's: .kafka_") as wrong:
        parse(f"{BY_RULES}{line}\n", URL)
    assert len(wrong.value.what) < 400
    assert "\n" not in wrong.value.what


@pytest.mark.parametrize("id", ["²", "x", "", "-1", "1.5", "9" * 900, "\u0661"])
def test_an_id_that_is_no_brokers_is_not_known(id: str) -> None:
    metrics = parse(BY_RULES.replace('id="1"', f'id="{id}"')[:-1], URL)
    assert metrics.broker is None
    assert metrics.kafka_version == "4.3.1"


def test_what_cannot_be_read_in_reasonable_time_and_memory_is_refused() -> None:
    count = 'kafka_network_requestmetrics_requests_total{request="Fetch",version="1"} 1\n'
    quotes = 'kafka_network_requestmetrics_requests_total{request="' + '\\"' * 2_000_000
    for text in (count * 60_000, BY_RULES + quotes):
        with pytest.raises(UsageError, match="does not answer with metrics"):
            parse(text, URL)


def test_what_is_not_asked_for_is_not_read() -> None:
    """Of a broker with many partitions it is nearly all that its exporter says."""
    others = 'kafka_log_log_size{topic="t",partition="1"} 1\n' * 200_000
    bytes_out = 'kafka_server_brokertopicmetrics_bytesout_total{topic="t"} 1\n' * 60_000
    text = BY_RULES + others + bytes_out + 'kafka_log_log_size{"broken\n'
    assert parse(text, URL) == parse(BY_RULES, URL)


def test_the_longest_answer_takes_less_than_64_mib_to_read() -> None:
    others = 'kafka_log_log_size{topic="t",partition="1"} 1\n'
    text = BY_RULES + others * ((LARGEST_BODY - len(BY_RULES)) // len(others))
    with serving(200, text) as url:
        del text
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        try:
            assert scrape(url).broker == 1
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
    assert peak < 64 << 20


@contextmanager
def serving(status: int, text: str) -> Iterator[str]:
    """An exporter's place, taken by a server that gives this answer."""
    with peer(saying(f"HTTP/1.1 {status} As asked\r\n\r\n{text}".encode())) as server:
        yield server.url


def test_counts_are_asked_for_over_http() -> None:
    with serving(200, BY_RULES) as url, serving(200, WITHOUT_RULES) as other_url:
        assert scrape(url).broker == 1
        by_rules = {("Metadata", 12): 3, ("Metadata", 13): 12345678, ("Produce", 11): 9}
        assert scrape(url).requests == by_rules
        assert scrape(other_url).requests == {("Metadata", 12): 3, ("Fetch", 17): 8}
        assert scrape(other_url).errors == {("Fetch", "FENCED_LEADER_EPOCH"): 2}


def test_an_http_error_is_told_by_its_number() -> None:
    with (
        serving(503, "busy") as url,
        pytest.raises(RefusedError, match="answers 503 Service Unavailable"),
    ):
        scrape(url)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", TRICKLES)
def test_an_exporter_that_answers_too_slowly_is_not_waited_for(what: str) -> None:
    with (
        peer(TRICKLES[what]) as slow,
        pytest.raises(TimedOutError, match=r"did not come in 0\.3 s"),
    ):
        scrape(slow.url, timeout_s=0.3)


def test_a_redirect_is_not_followed_and_nothing_of_its_end_is_told() -> None:
    with serving(200, "<b>of an inner page</b>") as inner:
        moved = f"HTTP/1.1 302 Found\r\nLocation: {inner}\r\nContent-Length: 0\r\n\r\n"
        with (
            peer(saying(moved.encode())) as outer,
            pytest.raises(RefusedError, match="answers 302 Found") as refused,
        ):
            scrape(outer.url)
    assert "inner page" not in str(refused.value)


@pytest.mark.parametrize("answer", ["", "HTTP/1.1 403 No\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nno{"])
def test_no_error_holds_the_password_of_the_url(answer: str) -> None:
    with peer(saying(answer.encode())) as wrong, pytest.raises(KipctlError) as failed:
        scrape(wrong.url.replace("//", "//me:s3cret@"))
    assert "s3cret" not in str(failed.value)
    with serving(200, BY_RULES) as right:
        assert "s3cret" not in repr(scrape(right.replace("//", "//me:s3cret@")))


@pytest.mark.parametrize(
    ("url", "error", "told"),
    [
        ("http://127.0.0.1:1/metrics", UnreachableError, "cannot be reached: "),
        ("127.0.0.1:7071/metrics", UsageError, "is no URL of metrics"),
        ("ftp://127.0.0.1/metrics", UsageError, "is no URL of metrics"),
        ("http://127.0.0.1:port/metrics", UsageError, "is no URL of metrics"),
        ("http://me:s3/cret@127.0.0.1/metrics", UsageError, "'http://***@127.0.0.1/metrics' is no"),
    ],
)
def test_a_url_that_leads_nowhere(url: str, error: type[KipctlError], told: str) -> None:
    with pytest.raises(error) as failed:
        scrape(url)
    assert told in failed.value.what
    assert len(str(failed.value).splitlines()) == 2
