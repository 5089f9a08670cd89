"""A lab whose brokers serve metrics: where they are, and that their counts are exact."""

import io
import json
from collections import Counter
from collections.abc import Callable

import pytest

from kipctl import __version__
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.broker_metrics import BrokerMetrics, scrape
from kipctl.lab.cluster import Lab
from kipctl.protocol.metadata import MetadataRequest
from kipctl.transport.request import BrokerConnection

pytestmark = pytest.mark.kafka


@pytest.fixture
def measured(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(name="measured", brokers=2, metrics=True)


def once_it_counts(url: str, api: str, count: int) -> BrokerMetrics:
    """A request is counted once its answer is sent: wait until so many are."""
    while (metrics := scrape(url)).requests_of(api) < count:
        pass
    return metrics


def settled(url: str) -> BrokerMetrics:
    """What was asked before is counted."""
    seen = scrape(url)
    while (now := scrape(url)).requests != seen.requests:
        seen = now
    return now


def test_metadata_requests_that_a_broker_counts_are_those_that_were_sent(measured: Lab) -> None:
    first, second = measured.metrics_urls
    before = {url: settled(url) for url in measured.metrics_urls}
    assert [metrics.broker for metrics in before.values()] == [1, 2]
    assert {metrics.kafka_version for metrics in before.values()} == {"4.3.1"}
    sent = Counter({12: 7, 13: 4})
    with BrokerConnection("127.0.0.1", measured.node(1).port, "test", 10.0) as connection:
        for version in sent.elements():
            connection.request(MetadataRequest(topics=()), version)
        after = once_it_counts(first, "Metadata", before[first].requests_of("Metadata") + 11)
        assert after.connections is not None
        assert after.connections["kipctl", __version__] >= 1
    new = Counter(after.requests) - Counter(before[first].requests)
    assert {version: n for (api, version), n in new.items() if api == "Metadata"} == sent
    assert new["ApiVersions", 4] == 1  # the one connection's
    assert scrape(second).requests_of("Metadata") == before[second].requests_of("Metadata")


def test_where_the_metrics_are_is_told(measured: Lab) -> None:
    environment = Environment(stdin=io.StringIO(), stdout=io.StringIO(), stderr=io.StringIO())
    run(["lab", "status", "--name", "measured", "-o", "json"], environment)
    (told,) = json.loads(environment.stdout.getvalue())["labs"]
    urls = [node["metrics_url"] for node in told["nodes"]]
    assert urls == [*measured.metrics_urls, None]
    measured.restart(2)
    assert scrape(urls[1]).broker == 2
    environment = Environment(stdin=io.StringIO(), stdout=io.StringIO(), stderr=io.StringIO())
    run(["lab", "status", "--name", "measured", "-o", "plain"], environment)
    last = environment.stdout.getvalue().splitlines()[-1]
    assert last == f"Metrics: {urls[0]} {urls[1]}"
