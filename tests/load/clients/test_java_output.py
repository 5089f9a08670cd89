"""What Java's tools print, as real ones printed it, and what is read from it."""

import pytest

from kipctl.load.clients.java_output import (
    consumer_total,
    cut_short,
    failed_send,
    producer_total,
    records_of_intervals,
    stated_start_ms,
    stated_version,
    unreachable_reason,
    why_it_failed,
)

PRODUCED = """\
4807 records sent, 961.2 records/sec (0.92 MB/sec), 121.8 ms avg latency, 476.0 ms max latency.
8000 records sent, 1000.0 records/sec (0.95 MB/sec), 96.37 ms avg latency, 476.00 ms max latency, \
70 ms 50th, 282 ms 95th, 368 ms 99th, 415 ms 99.9th.
"""
NOTHING_SENT = (
    "0 records sent, 0.0 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max latency, "
    "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th.\n"
)
CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-21 18:33:47:293, 2026-11-21 18:33:47:995, 7.7505, 11.0406, 8127, 11576.9231, \
446, 256, 30.2754, 31746.0938
"""
CUT_SHORT = """\
WARNING: Exiting before consuming the expected number of messages: timeout (3000 ms) exceeded. \
You can use the --timeout option to increase the timeout.
2026-11-21 18:28:33:745, 2026-11-21 18:28:36:811, 0.0000, 0.0000, 0, 0.0000, 772, 2294, \
0.0000, 0.0000
"""
MADE = """\
269 INFO Kafka version: 3.6.0
269 INFO Kafka commitId: 60e845626d8a465a
269 INFO Kafka startTimeMs: 1795285403000
"""
REFUSED = (
    "{} WARN [Producer clientId=perf-producer-client] Connection to node -1 (/127.0.0.1:1) "
    "could not be established. Node may not be available.\n"
)
NO_METADATA = (
    "org.apache.kafka.common.errors.TimeoutException: "
    "Topic nope not present in metadata after 60000 ms.\n"
)
TOO_LARGE = (
    "org.apache.kafka.common.errors.RecordTooLargeException: The message is 1086 bytes when "
    "serialized which is larger than 500, which is the value of the max.request.size "
    "configuration.\n"
)
BAD_ACKS = """\
Exception in thread "main" org.apache.kafka.common.config.ConfigException: Invalid value foo for \
configuration acks: String must be one of: all, -1, 0, 1
\tat org.apache.kafka.common.config.ConfigDef$ValidString.ensureValid(ConfigDef.java:951)
"""
NOT_MADE = """\
Exception in thread "main" org.apache.kafka.common.KafkaException: Failed to construct kafka \
producer
\tat org.apache.kafka.clients.producer.KafkaProducer.<init>(KafkaProducer.java:478)
Caused by: org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in \
bootstrap.servers
\t... 5 more
"""


def test_the_last_line_of_a_producer() -> None:
    total = producer_total(PRODUCED)
    assert total is not None
    assert (total.records, total.seconds) == (8000, 8.0)
    assert total.latency_ms == {
        "avg": 96.37,
        "max": 476.0,
        "p50": 70.0,
        "p95": 282.0,
        "p99": 368.0,
        "p99.9": 415.0,
    }


def test_a_producer_that_came_to_nothing_and_one_that_did_not_end() -> None:
    nothing = producer_total(NOTHING_SENT)
    assert nothing is not None
    assert (nothing.records, dict(nothing.latency_ms)) == (0, {})
    assert producer_total(PRODUCED.splitlines()[0]) is None
    assert records_of_intervals(PRODUCED) == 4807  # without the last line


def test_the_last_line_of_a_consumer() -> None:
    total = consumer_total(CONSUMED)
    assert total is not None
    assert (total.records, total.seconds) == (8127, 0.702)
    assert total.bytes == pytest.approx(8127_000, rel=1e-4)
    assert cut_short(CONSUMED) == ""


def test_a_consumer_that_gave_up_says_so() -> None:
    total = consumer_total(CUT_SHORT)
    assert total is not None
    assert (total.records, total.seconds) == (0, 3.066)
    assert cut_short(CUT_SHORT) == (
        "Exiting before consuming the expected number of messages: timeout (3000 ms) exceeded"
    )


def test_a_client_introduces_itself() -> None:
    assert (stated_version(MADE), stated_start_ms(MADE)) == ("3.6.0", 1795285403000)
    assert (stated_version(MADE[:20]), stated_start_ms(MADE[:20])) == (None, None)


@pytest.mark.parametrize(
    ("stderr", "why"),
    [
        (MADE, ""),
        (REFUSED.format(400), ""),  # it is still trying
        (REFUSED.format(400) + REFUSED.format(10_001), "Connection to node -1 (/127.0.0.1:1)"),
        (
            REFUSED.format(10_001) + REFUSED.format(10_002).replace("127.0.0.1:1", "127.0.0.1:2"),
            "Connection to node -1 (/127.0.0.1:2)",
        ),
        # A broker that is away does not mean that none answers.
        (REFUSED.format(20_000).replace("node -1", "node 2"), ""),
        (NO_METADATA, "Topic nope not present in metadata after 60000 ms"),
        (TOO_LARGE, ""),
    ],
)
def test_what_means_that_no_broker_answers(stderr: str, why: str) -> None:
    reason = unreachable_reason(stderr, 10_000)
    assert reason.startswith(why)
    assert bool(reason) == bool(why)


@pytest.mark.parametrize(
    ("stdout", "stderr", "why"),
    [
        (
            "",
            BAD_ACKS,
            "ConfigException: Invalid value foo for configuration acks: "
            "String must be one of: all, -1, 0, 1",
        ),
        ("", NOT_MADE, "ConfigException: No resolvable bootstrap urls given in bootstrap.servers"),
        ("", MADE + NO_METADATA, "TimeoutException: " + NO_METADATA.split(": ")[1].strip()),
        ("usage: ...\n", "producer-performance: error: unrecognized\n\n", None),
        ("", "", "it said nothing"),
    ],
)
def test_why_one_failed(stdout: str, stderr: str, why: str | None) -> None:
    expected = "producer-performance: error: unrecognized" if why is None else why
    assert why_it_failed(stdout, stderr) == expected


def test_a_long_reason_stays_on_one_line() -> None:
    why = failed_send(MADE + TOO_LARGE.replace("1086", "1" * 300))
    assert why.startswith("RecordTooLargeException: The message is 111")
    assert len(why) == 200
