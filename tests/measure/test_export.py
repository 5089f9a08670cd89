"""From what the probe wrote down to Parquet and back: strings, nulls, times since the start."""

from pathlib import Path
from uuid import UUID

from kipctl import __version__
from kipctl.measure.export import record_batches
from kipctl.probe.backoff import Attempts
from kipctl.probe.produce.batches import Batch, Partition
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.payloads import Variant
from kipctl.probe.produce.rows import batch_done
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.probe.tracing import Tracing
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.codes import Decision, MetadataCause
from kipctl.trace.redirect_phases import FailedAttempt, Wait
from kipctl.trace.schema import DATASETS
from kipctl.trace.store import Run
from kipctl.transport.access import Access
from kipctl.transport.loop_connection import InFlight

START_US = 10_000_000
TWO_RECORDS = Variant(memoryview(b"ab"), [1, 2], [30, 70], 2)


def outcome(endpoints: tuple[str, ...] = ()) -> ProduceOutcome:
    return ProduceOutcome(
        spec=ProduceSpec(Access("localhost:1"), "t", 10, config=ProducerConfig(client_id="me")),
        topics=("first topic", "t"),
        endpoints=endpoints,
        start_us=START_US,
        stopped=False,
        cluster_id="c",
        errors={},
        **dict.fromkeys(("end_us", "wall_start_us", "interval_ns", "cpu_s"), 0),
        **dict.fromkeys(("generated", "acknowledged", "failed"), 0),
    )


def a_batch(first_seq: int, records: int = 2) -> Batch:
    partition = Partition(Topic("t", UUID(int=1)), 1, 7, ordered=False, window=5)
    batch = Batch(partition, first_seq, 3, START_US + 100, TWO_RECORDS)
    batch.records = records
    return batch


def sent(batch: Batch, attempts: int = 1) -> Batch:
    batch.attempts = Attempts()
    for attempt in range(attempts):
        batch.attempts.sent(epoch=4 + attempt)
    batch.sent_us = START_US + 110
    batch.last_sent_us = START_US + 1000 * attempts
    batch.broker = 2
    return batch


def exported(tracing: Tracing, raw: Path, endpoints: tuple[str, ...] = ()) -> Run:
    """The run written from these rows, through Parquet files."""
    tracing.close()
    run = Run.create(raw / "run")
    for dataset in ProduceOutcome.datasets:
        run.write(dataset, record_batches(outcome(endpoints), raw, dataset))
    return run


def test_batches_come_back_with_nulls_for_what_never_was(tmp_path: Path) -> None:
    tracing = Tracing(tmp_path, ProduceOutcome.datasets)
    batch_done(tracing, sent(a_batch(40)), START_US + 500, error=0, base_offset=0)
    batch_done(tracing, a_batch(90, records=1), START_US + 900, error=7, base_offset=-1)
    rows = exported(tracing, tmp_path).read("batches").to_pylist()
    names = "first_seq records bytes sent_us acked_us attempts error broker leader_epoch"
    assert [
        (*(row.pop(name) for name in names.split()), row.pop("base_offset")) for row in rows
    ] == [
        (40, 2, 70, 110, 500, 1, 0, 2, 4, 0),
        (90, 1, 30, None, 900, 0, 7, -1, -1, None),
    ]
    of_both = {"source": "probe", "client": "me", "topic": "t", "partition": 7}
    assert rows == [of_both | {"seq_stride": 3, "intended_us": 100}] * 2


def test_redirects_come_back_with_their_hint_decision_and_phases(tmp_path: Path) -> None:
    tracing = Tracing(tmp_path, ProduceOutcome.datasets)
    batch = sent(a_batch(40), attempts=3)
    hinted = FailedAttempt(
        *(1, START_US + 110, START_US + 150, 6, True, 1, 4, 17, Decision.FOLLOWED, 1),
        *(2, 5, 1),  # the hint
        to_broker=2,
        to_epoch=5,
        wait=Wait(queued=1, backoff=2, metadata=3, connect=4),
        metadata_queued_us=2,
    )
    lost = FailedAttempt(
        *(2, START_US + 160, START_US + 170, 13, False, 2, 5, -1, Decision.NOT_APPLICABLE)
    )
    batch.failures = [hinted, lost]
    batch_done(tracing, batch, START_US + 170, error=13, base_offset=-1)
    run = exported(tracing, tmp_path, endpoints=("a:1", "b:2"))
    first, second = run.read("redirects").to_pylist()
    assert first == {
        "source": "probe",
        "client": "me",
        "api": "produce",
        "topic": "t",
        "partition": 7,
    } | {"first_seq": 40, "records": 2, "attempt": 1, "error": 6, "error_us": 150} | {
        "from_broker": 1,
        "from_epoch": 4,
        "base_offset": 17,
        "topic_generation": 1,
    } | {"hint_leader": 2, "hint_epoch": 5, "hint_endpoint": "b:2", "decision": "followed"} | {
        "to_broker": 2,
        "to_epoch": 5,
        "queued_us": 11,
        "detect_us": 40,
        "backoff_us": 2,
    } | {"metadata_us": 3, "throttled_us": 0, "connect_us": 4, "not_ready_us": 0} | {
        "acknowledge_us": 0,
        "metadata_queued_us": 2,
    }
    nothing = ("base_offset", "hint_leader", "hint_epoch", "hint_endpoint", "to_broker", "to_epoch")
    assert [second[name] for name in nothing] == [None] * len(nothing)
    assert second["decision"] == "not_applicable"


def test_without_any_hint_the_column_is_null(tmp_path: Path) -> None:
    tracing = Tracing(tmp_path, ProduceOutcome.datasets)
    batch = sent(a_batch(1))
    batch.failures = [FailedAttempt(1, START_US, START_US, 6, True, 1, 4, -1, Decision.ABSENT)]
    batch_done(tracing, batch, START_US + 500, error=6, base_offset=-1)
    (row,) = exported(tracing, tmp_path, endpoints=()).read("redirects").to_pylist()
    assert row["hint_endpoint"] is None
    assert row["decision"] == "absent"


def test_requests_come_back_with_their_cause_and_software(tmp_path: Path) -> None:
    tracing = Tracing(tmp_path, ProduceOutcome.datasets)
    request = {"connection": 3, "broker": 2, "api_key": 3, "api_version": 13, "error": 0}
    request |= {"request_bytes": 50, "response_bytes": 900, "topics": 1, "critical": True}
    request |= {"sent_us": START_US + 10, "received_us": START_US + 40}
    request |= {"queued_behind": 2, "queued_behind_us": 20, "cause": MetadataCause.LEADER_CHANGE}
    unanswered = {"api_key": 0, "received_us": 0, "response_bytes": 0, "cause": -1, "error": 13}
    before_the_start = {"sent_us": START_US - 70, "received_us": START_US - 30}
    for row in (
        request,
        request | unanswered | {"critical": False},
        request | before_the_start | {"cause": MetadataCause.START},
    ):
        sent = ("api_key", "api_version", "request_bytes", "sent_us", "queued_behind")
        flight = InFlight(0, *(row[name] for name in sent), subject=None)
        got = ("received_us", "response_bytes", "queued_behind_us", "topics", "error", "cause")
        number = tracing.rpc(row["broker"], row["connection"], flight, *(row[name] for name in got))
        if row["critical"]:
            tracing.mark_critical(number)
    first, second, third = exported(tracing, tmp_path).read("rpcs").to_pylist()
    software = {"software_name": "kipctl", "software_version": __version__}
    seen = {"source": "probe", "client": "me", "cause": "leader_change"}
    assert first == request | software | seen | {"sent_us": 10, "received_us": 40}
    assert (second["received_us"], second["cause"], second["critical"]) == (None, None, False)
    assert (third["sent_us"], third["received_us"], third["cause"]) == (-70, -30, "start")


def test_a_run_without_rows_has_every_dataset_with_its_columns(tmp_path: Path) -> None:
    run = exported(Tracing(tmp_path, ProduceOutcome.datasets), tmp_path)
    for dataset in ProduceOutcome.datasets:
        table = run.read(dataset)
        assert table.num_rows == 0
        assert table.schema == DATASETS[dataset]
