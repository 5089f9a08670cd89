"""A run whose recorder was killed: its rows become a run."""

import json
import shutil
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from rows import rows_of
from strict_loopback import StrictLoopback

from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.conform import cluster as conform
from kipctl.errors import UsageError
from kipctl.load import produce
from kipctl.load.consume import consume_settings
from kipctl.load.execute import Listeners
from kipctl.load.measure import measure
from kipctl.load.produce import PerfPlan, ProduceLoad, produce_settings
from kipctl.load.record import Recorder
from kipctl.load.repair import (
    _consumer,
    _ConsumerSettings,
    _producer,
    _ProducerSettings,
    left_undone,
    repair,
)
from kipctl.load.start import OnThisMachine, Probe
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.report.perf_tables import perf_answer, perf_tables
from kipctl.trace.clock import now_us
from kipctl.trace.columns import raw_path
from kipctl.trace.run_start import RunStart
from kipctl.trace.settings import actions_in_short
from kipctl.trace.store import ROWS_FOLDER, RUN_FILE, Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster
from kipctl.typed_json import DamagedError, decoded

CONFIG = ProducerConfig(
    acks=1, enable_idempotence=False, linger_ms=0.5, partitioner="round-robin", batch_size=100
)
REST = {"workers": 1, "master": None, "arm": "kip951", "cluster_before": {}}


def snapshot(cluster: conform.Cluster) -> Snapshot:
    with Cluster(cluster.bootstrap_server, "test", 30) as asked:
        return take_snapshot(asked, ["t"])


def spec_on(cluster: conform.Cluster, records: int = 10**6, rate: float = 1000) -> ProduceSpec:
    access = Access(cluster.bootstrap_server)
    return ProduceSpec(access, "t", records, rate, 10, config=CONFIG)


def begin(run: Run, spec: ProduceSpec, probe: Probe[Any], cluster: conform.Cluster) -> None:
    """Write down what is known of a run when it begins."""
    how = produce_settings(spec, probe.schedule.interval_ns) | REST
    Recorder(run, "perf produce", "t", how, asdict(snapshot(cluster))).begin()


def measured(folder: Path) -> Run:
    """A recorded run of 100 records."""
    run = Run.create(folder)
    with (
        StrictLoopback(conform.Cluster({"t": 1})) as cluster,
        Cluster(cluster.bootstrap_server, "test", 30) as asked,
    ):
        plan = PerfPlan(probe=spec_on(cluster, 100), record=folder)
        measure(ProduceLoad(plan), asked, snapshot(cluster), Listeners(), run)
    return run


def killed_run(folder: Path, cluster: conform.Cluster, batches: int = 30) -> Path:
    """What is on the disk when kipctl is killed in a run that has settled so many batches."""
    spec = spec_on(cluster, rate=2000)
    run = Run.create(folder / "recorded")
    with OnThisMachine(run.folder)(spec) as probe:
        begin(run, spec, probe, cluster)
        settled = 0
        while settled < batches:
            settled += len(probe.new_rows("batches"))
            assert not probe.is_done_by(now_us() + 10_000)
        shutil.copytree(run.folder, folder / "killed")
    return folder / "killed"


def test_what_was_settled_becomes_a_run_that_says_that_it_failed_and_is_repaired_once(
    tmp_path: Path,
) -> None:
    with StrictLoopback(conform.Cluster({"t": 2})) as cluster:
        folder = killed_run(tmp_path, cluster)
        assert "kipctl runs repair killed" in read_stored_run(folder).flaw
        document = repair(folder)
        accepted = cluster.records
    run = Run(folder)
    batches = run.read("batches").to_pylist()
    assert len(batches) >= 30
    sent = sum(batch["records"] for batch in batches)
    assert document["records"]["acknowledged"] == sent <= accepted
    not_known = (
        "throttle_ms",
        "topic_changes",
        "loop_lag_ms",
        "reauthentications",
        "connection_failures",
        "hinted_elsewhere",
        "cpu_seconds",
    )
    assert [document[name] for name in not_known] == [None] * len(not_known)
    [answer] = perf_answer(document)
    assert answer.first.startswith(f"{sent:,} of {sent:,} records settled were acknowledged")
    longest_ms = max(batch["acked_us"] - batch["intended_us"] for batch in batches) / 1000
    assert answer.others[0].startswith(f"The longest took {longest_ms:,.1f} ms: due ")
    [note] = perf_tables(document)[0].notes
    assert note.endswith("is not known: it did not come to tell.")
    assert {batch["topic"] for batch in batches} == {"t"}
    assert read_stored_run(folder).flaw.startswith("it failed: kipctl was killed")
    described = run.description
    assert described["cluster_before"]["cluster_id"]
    assert described["summary"] == json.loads(json.dumps(document))
    assert described["producer"]["linger.ms"] == "0.5"
    assert not (folder / ROWS_FOLDER).exists()
    with pytest.raises(UsageError, match="is whole"):
        repair(folder)


def test_a_run_is_recorded_before_it_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: object) -> None:
        raise MemoryError

    run = Run(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(produce, "measured_produce", out_of_memory)
        with pytest.raises(MemoryError) as failed:
            measured(run.folder)
    assert failed.value.__notes__ == [
        f"What was measured until then: kipctl runs repair {run.folder}"
    ]
    assert "kipctl runs repair run" in read_stored_run(run.folder).flaw
    recorded = run.description
    assert recorded["cluster_after"]
    assert recorded["summary"]["actions"] == []
    assert sum(batch["records"] for batch in run.read("batches").to_pylist()) == 100
    document = repair(run.folder)
    assert document["records"]["acknowledged"] == 100
    assert run.description == recorded | {"summary": json.loads(json.dumps(document))}
    assert read_stored_run(run.folder).flaw == ""


def test_ctrl_c_while_it_is_recorded_is_put_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Run.write

    def interrupted(run: Run, *rows: Any) -> int:
        if rows[0] == "batches":
            signal.raise_signal(signal.SIGINT)
        return write(run, *rows)

    monkeypatch.setattr(Run, "write", interrupted)
    run = measured(tmp_path / "run")
    assert run.description["summary"]["records"]["acknowledged"] == 100
    assert read_stored_run(run.folder).flaw == ""


def test_of_a_run_whose_load_was_cut_off_before_it_began_nothing_is_left(tmp_path: Path) -> None:
    """As perf e2e, whose consumer has answers before its producer is there."""
    run = Run.create(tmp_path / "run")

    def cut_off() -> None:
        with (
            StrictLoopback(conform.Cluster({"t": 1})) as cluster,
            OnThisMachine(run.folder)(spec_on(cluster)) as probe,
        ):
            while not len(probe.new_rows("batches")):
                probe.is_done_by(now_us() + 10_000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interrupted:
        cut_off()
    assert not hasattr(interrupted.value, "__notes__")
    assert list(run.folder.iterdir()) == []


def test_a_run_that_is_being_recorded_is_left_alone(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    with StrictLoopback(conform.Cluster({"t": 1})) as cluster:
        spec = spec_on(cluster)
        with OnThisMachine(run.folder)(spec) as probe:
            begin(run, spec, probe, cluster)
            with pytest.raises(UsageError, match="still being written"):
                repair(run.folder)
            assert read_stored_run(run.folder).flaw == "it is being recorded"
            assert (run.folder / ROWS_FOLDER / RUN_FILE).exists()


def left_by_a_killed_recorder(folder: Path, **known: Any) -> Path:
    """A run's folder with a single batch, and what was known when it began."""
    rows = folder / ROWS_FOLDER
    (rows / "0").mkdir(parents=True)
    RunStart("h", 5000, 9).write(rows / "0")
    batch = {"records": 4, "acked_us": 7000, "seq_stride": 1}
    rows_of("batches", batch).tofile(raw_path(rows / "0", "batches"))
    spec = ProduceSpec(Access("b:1"), "t", 10, 1000, config=CONFIG)
    how = {"command": "perf produce", "topic": "t"} | produce_settings(spec, 1) | REST | known
    Run(rows).describe({name: value for name, value in how.items() if value is not MISSING})
    return rows / RUN_FILE


MISSING = object()


def test_what_was_known_is_read_of_a_folder_that_was_left(tmp_path: Path) -> None:
    left_by_a_killed_recorder(tmp_path)
    assert repair(tmp_path)["records"]["acknowledged"] == 4


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"command": MISSING}, "missing required field `command`"),
        ({"command": "tap"}, "missing required field `conditions`"),
        ({"command": "perf consume"}, "missing required field `consumer`"),
        ({"topic": MISSING}, "missing required field `topic`"),
        ({"topic": 7}, "Expected `str`, got `int`"),
        ({"workers": "all"}, "Expected `int`, got `str`"),
        ({"num_records": 10**400}, "too large"),
        ({"leader_discovery": "by hand"}, "Invalid enum value"),
        ({"producer": {"acks": 1}}, "Expected `str`, got `int`"),
        ({"producer": MISSING}, "missing required field `producer`"),
        ({"cluster_before": []}, "Expected `object`, got `array`"),
    ],
)
def test_what_somebody_wrote_over_is_an_error_and_stays(
    tmp_path: Path, known: dict[str, Any], why: str
) -> None:
    left = left_by_a_killed_recorder(tmp_path, **known)
    with pytest.raises(DamagedError, match=f"{left} is damaged.*{why}"):
        repair(tmp_path)
    assert left.exists()


def test_what_is_no_file_is_an_error_as_well(tmp_path: Path) -> None:
    left = left_by_a_killed_recorder(tmp_path)
    left.rename(tmp_path / "elsewhere")
    left.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedError, match=f"{left} is damaged.*no regular file"):
        repair(tmp_path)


@pytest.mark.parametrize("row", [{"records": 1 << 50}, {"partition": 1 << 40}])
def test_rows_that_no_client_has_written_are_an_error_too(
    tmp_path: Path, row: dict[str, int]
) -> None:
    left = left_by_a_killed_recorder(tmp_path)
    path = raw_path(left.parent / "0", "batches")
    rows_of("batches", {"records": 4, "acked_us": 7000, "seq_stride": 1} | row).tofile(path)
    with pytest.raises(DamagedError, match=f"{path} is damaged"):
        repair(tmp_path)
    assert left.exists()


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"[]"])
def test_a_description_that_is_none_is_an_error_beside_rows_and_of_a_recorded_run(
    tmp_path: Path, content: bytes
) -> None:
    left = left_by_a_killed_recorder(tmp_path)
    whole = left.read_bytes()
    left.write_bytes(content)
    with pytest.raises(DamagedError, match="is damaged"):
        repair(tmp_path)
    left.write_bytes(whole)
    (tmp_path / RUN_FILE).write_bytes(content)
    with pytest.raises(UsageError, match=f"{tmp_path} cannot be repaired: run.json "):
        repair(tmp_path)
    assert left.read_bytes() == whole


def test_a_damaged_outcome_of_a_tap_is_no_reason_not_to_repair(tmp_path: Path) -> None:
    rows = left_by_a_killed_recorder(tmp_path, command="tap", conditions={"drop_hints": True})
    (rows.parent / "0" / "batches.i64").unlink()  # a tap's have other columns
    (rows.parent / "0" / "outcome").write_bytes(b"\x80\x04N.")
    document = repair(tmp_path)
    assert document["conditions"] == {"drop_hints": True}
    assert "outcome is damaged" in Run(tmp_path).description["failed"]


@pytest.mark.parametrize("holds", ["", "notes.txt", ".rows"])
def test_where_no_run_began_there_is_nothing_to_repair(tmp_path: Path, holds: str) -> None:
    if holds:
        (tmp_path / holds).mkdir()
    with pytest.raises(UsageError, match="nothing to repair"):
        repair(tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        ProducerConfig(),
        CONFIG,
        ProducerConfig(acks=0, enable_idempotence=False, retries=0, client_id="a=b c"),
        ProducerConfig(compression_type="zstd", linger_ms=5.25, batch_size=0),
    ],
)
def test_a_producers_settings_are_read_back_as_they_were(config: ProducerConfig) -> None:
    spec = ProduceSpec(Access("b:1"), "t", 10, 2.5, 7, warmup_records=3, config=config)
    known: dict[str, Any] = {"topic": "t"} | produce_settings(spec, 0)
    assert _producer(decoded(json.dumps(known | REST), _ProducerSettings, "It")) == spec


def test_a_consumers_settings_are_read_back_as_they_were() -> None:
    config = ConsumerConfig(client_rack="r 1", check_crcs=False, auto_offset_reset="earliest")
    spec = ConsumeSpec(Access("b:1"), "t", 10, discovery=LeaderDiscovery.REFRESH, config=config)
    known: dict[str, Any] = {"topic": "t"} | consume_settings(spec)
    assert _consumer(decoded(json.dumps(known | REST), _ConsumerSettings, "It")) == spec


OWN_TOPIC = "kipctl-perf-kafka-ops-1-4711-0a1b2c"


@pytest.mark.parametrize(
    ("topic", "during", "left", "actions"),
    [
        ("orders", None, [], "none"),
        ("orders", "rotate", ["kipctl changes list"], "rotate, how often is not known"),
        ("orders", "restart:1", ["lab status"], "restart:1, how often is not known"),
        (OWN_TOPIC, "elect", [OWN_TOPIC], "elect, how often is not known"),
        (OWN_TOPIC, "restart:1", [OWN_TOPIC, "lab status"], "restart:1, how often is not known"),
    ],
)
def test_what_a_killed_run_may_have_left_on_the_cluster_is_said(
    topic: str, during: str | None, left: list[str], actions: str
) -> None:
    repaired = {"topic": topic, "repaired": True} | ({"during": during} if during else {})
    sentences = list(left_undone(repaired))
    assert len(sentences) == len(left)
    assert all(word in sentence for word, sentence in zip(left, sentences, strict=True))
    assert actions_in_short(repaired) == actions
