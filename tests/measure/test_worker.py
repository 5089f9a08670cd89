"""Workers that share a run, on a fake cluster: their start, their folder, and what is left."""

import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import read_back, rows_of
from strict_loopback import StrictLoopback

from kipctl import errors
from kipctl.conform.cluster import Cluster
from kipctl.errors import KipctlError, PipelineError, RefusedError, UsageError
from kipctl.load.record import Recorder
from kipctl.measure import worker as worker_module
from kipctl.measure.consumer_summary import reads_of
from kipctl.measure.export import record_batches
from kipctl.measure.outcomes import combined_outcome, salvaged_outcome
from kipctl.measure.probe_results import ProbeResult, shifted
from kipctl.measure.producer_summary import measured_produce, summarize_produce
from kipctl.measure.worker import (
    Answer,
    Gather,
    SharedFolder,
    WorkOrder,
    agreed_start,
    finished_result,
    run_worker,
    salvaged_result,
    work,
)
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.probe.schedule import Share
from kipctl.security.sasl import OAUTHBEARER, AuthenticationError, Sasl
from kipctl.security.settings import Security
from kipctl.security.tls import Tls
from kipctl.security.tokens import (
    TOKEN_SOURCES,
    ClientCredentials,
    FileToken,
    MskToken,
    TokenSource,
    UnsignedToken,
)
from kipctl.trace.clock import wall_time
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.run_start import RunStart
from kipctl.trace.store import Run
from kipctl.transport.access import Access, parse_map
from kipctl.typed_json import DamagedError, decoded, encoded

INTERVAL_NS = 333_333


def barrier(workers: int) -> Callable[[int], Gather]:
    """A way for threads to hear each other once, as Spark's tasks do."""
    said = [""] * workers
    all_there = threading.Barrier(workers)

    def gather_of(worker: int) -> Gather:
        def gather(word: str) -> list[str]:
            said[worker] = word
            all_there.wait(30)
            return list(said)

        return gather

    return gather_of


def order(whole: ProduceSpec | ConsumeSpec, folder: Path, workers: int = 2) -> WorkOrder:
    """A run that so many workers share by a folder below this one, and are to record there."""
    (folder / "shared").mkdir()
    (folder / "run").mkdir()
    shares = tuple(whole.of_worker(Share(worker, workers)) for worker in range(workers))
    return WorkOrder.of(shares, SharedFolder.prepare(folder / "shared", workers), folder / "run")


def spec(cluster: Cluster, records: int = 301) -> ProduceSpec:
    return ProduceSpec(
        Access(cluster.bootstrap_server),
        "t",
        records,
        3000,
        10,
        config=ProducerConfig(acks=1, enable_idempotence=False, partitioner="round-robin"),
    )


def parts_of(given: WorkOrder) -> list[ProbeResult[ProduceOutcome]]:
    return [part for w in range(given.workers) if (part := finished_result(given, w))]


def work_together(given: WorkOrder) -> list[KipctlError | None]:
    gather_of = barrier(given.workers)
    with ThreadPoolExecutor(given.workers) as threads:
        answers = [
            threads.submit(run_worker, given, worker, gather_of(worker))
            for worker in range(given.workers)
        ]
        return [answer.result(60) for answer in answers]


IN_ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type)]
WALL_US = 1_700_000_000_000_000


@pytest.fixture(autouse=True)
def start_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes workers to be ready: the wall clock stands still."""
    monkeypatch.setattr(worker_module, "START_DELAY_US", 50_000)
    monkeypatch.setattr(worker_module, "_wall_us", lambda: WALL_US)


def test_three_workers_send_what_one_would_have_sent(tmp_path: Path) -> None:
    with StrictLoopback(Cluster({"t": 5}, brokers=2)) as cluster:
        given = order(spec(cluster), tmp_path, 3)
        assert given.shared.start_wall_us() is None
        assert work_together(given) == [None, None, None]
        assert cluster.records == 301
        assert all(log.end for log in cluster.logs.values())

    # All start at the same moment.
    assert given.shared.start_wall_us() == WALL_US + 50_000
    for worker in range(3):
        begun = given.shared.begun(worker)
        assert begun is not None
        assert begun.wall_start_us == given.shared.start_wall_us()
        rows = read_back(given.shared.directory(worker), "batches")
        assert min(row["sent_us"] for row in rows) >= begun.start_us

    parts = parts_of(given)
    assert all(part.recorded for part in parts)
    batches = Run(tmp_path / "run").read("batches").to_pylist()
    seqs = Counter(
        (row["client"], row["first_seq"] + k * row["seq_stride"])
        for row in batches
        for k in range(row["records"])
    )
    assert seqs == Counter((f"kipctl-perf-{seq % 3}", seq) for seq in range(301))
    assert all(row["partition"] % 3 == int(row["client"][-1]) for row in batches)
    assert all(row["intended_us"] == row["first_seq"] * INTERVAL_NS // 1000 for row in batches)

    # Each part as from a machine whose clock stands elsewhere: read together, it is one run.
    start_us = 77_000_000
    outcome = combined_outcome(spec(cluster), [part.outcome for part in parts], start_us)
    assert (outcome.generated, outcome.acknowledged, outcome.failed) == (301, 301, 0)
    assert (outcome.start_us, outcome.spec.config.client_id) == (start_us, "kipctl-perf")
    latencies = sorted(
        row["acked_us"] - (row["first_seq"] + k * row["seq_stride"]) * INTERVAL_NS // 1000
        for row in batches
        for k in range(row["records"])
    )
    measured = measured_produce(outcome, parts)
    latency = measured.times.latency
    assert np.repeat(latency.values, latency.counts).tolist() == latencies
    assert measured.times.last_us == start_us + max(row["acked_us"] for row in batches)
    summary = summarize_produce(measured, [], None)
    assert summary["metadata_rpcs"]["by_cause"] == {"start": 3}
    worst = summary["longest_record"]
    assert worst is not None
    into_us = round(worst["intended_ms"] * 1000)
    assert worst["longest_ms"] == latencies[-1] / 1000
    assert into_us in {row["intended_us"] for row in batches}
    assert worst["intended"] == wall_time(outcome.wall_start_us + into_us)


def test_a_worker_is_a_client_of_its_own() -> None:
    own = ProduceSpec(Access("localhost:1"), "t", 10, payload_file=Path("values")).of_worker(
        Share(1, 2)
    )
    assert (own.config.client_id, own.share) == ("kipctl-perf-1", Share(1, 2))
    assert own.num_records == 10
    assert own.payload_file == Path.cwd() / "values"


@pytest.mark.parametrize(
    ("said", "start_us"),
    [
        (["1000"], 51_000),
        (["1000", "2500", "900"], 52_500),
        (["1000", "failed"], None),
        (["failed", "failed"], None),
    ],
)
def test_the_start_follows_the_last_to_be_ready(said: list[str], start_us: int | None) -> None:
    assert agreed_start(said) == start_us


def test_no_worker_begins_when_one_cannot(tmp_path: Path) -> None:
    with StrictLoopback(Cluster({"t": 2}, brokers=1)) as cluster:
        given = order(spec(cluster), tmp_path)
        given.shared.directory(1).mkdir()  # it has been here before
        answers = work_together(given)
        assert cluster.records == 0
    assert answers[0] is None
    assert isinstance(answers[1], PipelineError)
    assert "started twice" in answers[1].what
    assert given.shared.start_wall_us() is None
    assert salvaged_result(given, 0, "why") is None


def test_what_keeps_all_from_beginning_is_returned_by_each(tmp_path: Path) -> None:
    with StrictLoopback(Cluster({"another": 1}, brokers=1)) as cluster:
        answers = work_together(order(spec(cluster), tmp_path))
    assert [type(answer) for answer in answers] == [UsageError, UsageError]


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_that_is_not_the_starters_is_told(tmp_path: Path, there: bool) -> None:
    with StrictLoopback(Cluster({"t": 1}, brokers=1)) as cluster:
        given = order(spec(cluster), tmp_path, workers=1)
        if there:
            SharedFolder.prepare(tmp_path / "shared", 1)  # somebody else's, of the same name
        else:
            shutil.rmtree(tmp_path / "shared")
        (answer,) = work_together(given)
    assert isinstance(answer, PipelineError)
    assert ("sees another" if there else "cannot use") in answer.what
    assert "--record" in answer.next_step


def test_a_worker_that_hears_of_the_start_too_late_says_so(tmp_path: Path) -> None:
    with StrictLoopback(Cluster({"t": 1}, brokers=1)) as cluster:
        given = order(spec(cluster), tmp_path, workers=1)
        with pytest.raises(PipelineError, match="its clock differs"):
            run_worker(given, 0, lambda word: ["0"])
        assert cluster.records == 0
    assert "its clock differs" in given.shared.failure(0)


def test_what_goes_wrong_after_the_start_is_left_in_the_folder(tmp_path: Path) -> None:
    with StrictLoopback(Cluster({"t": 1}, brokers=1)) as cluster:
        given = order(spec(cluster), tmp_path, workers=1)
        given = replace(given, record=tmp_path / "no such folder")
        with pytest.raises(FileNotFoundError):
            run_worker(given, 0, lambda word: [word])
        assert cluster.records == 301
    assert given.shared.failure(0).startswith("FileNotFoundError: ")
    assert finished_result(given, 0) is None
    salvaged = salvaged_result(given, 0, "why")
    assert salvaged is not None
    assert salvaged.outcome.acknowledged == 301


@pytest.mark.parametrize(
    "ask", [lambda shared: shared.stop([1]), lambda shared: shutil.rmtree(shared.path)]
)
def test_workers_stop_when_they_are_asked_to_and_when_nobody_is_left_to_ask(
    tmp_path: Path, ask: Callable[[SharedFolder], None]
) -> None:
    shared = SharedFolder.prepare(tmp_path, 2)
    assert not shared.should_stop(1)()
    ask(shared)
    assert shared.should_stop(1)()


def test_some_workers_may_go_on_when_others_are_stopped(tmp_path: Path) -> None:
    shared = SharedFolder.prepare(tmp_path, 3)
    shared.stop([0, 2])
    assert [shared.should_stop(worker)() for worker in range(3)] == [True, False, True]


def test_a_worker_that_is_asked_to_stop_finishes_what_is_under_way(tmp_path: Path) -> None:
    with StrictLoopback(Cluster({"t": 2}, brokers=1)) as cluster:
        given = order(spec(cluster, records=10**6), tmp_path)
        # As soon as there is a record.
        cluster.script = lambda attempt: given.shared.stop(range(2))
        assert work_together(given) == [None, None]
        outcome = combined_outcome(spec(cluster), [part.outcome for part in parts_of(given)], 0)
        assert outcome.stopped
        assert outcome.generated == outcome.acknowledged == cluster.records


def test_what_a_dead_worker_had_settled_is_salvaged(tmp_path: Path) -> None:
    whole = ProduceSpec(Access("localhost:1"), "t", 100, 1000)
    given = replace(order(whole, tmp_path), record=None)
    directory = given.shared.directory(1)
    directory.mkdir()
    assert salvaged_result(given, 1, "why") is None
    (directory / "begun").write_text('{"host": "h", "start_us": 5000, "wall_start_us": 9}')
    common = {"seq_stride": 2, "intended_us": 6000, "sent_us": 6100}
    rows_of(
        "batches",
        {"first_seq": 1, "records": 4, "acked_us": 7000},
        {"first_seq": 9, "records": 2, "acked_us": 8000},
        {"first_seq": 13, "records": 3, "acked_us": 7500, "error": 7},
        **common,
    ).tofile(raw_path(directory, "batches"))
    with raw_path(directory, "batches").open("ab") as cut:
        cut.write(b"half a row")

    part = salvaged_result(given, 1, "It died.")
    assert part is not None
    outcome = part.outcome
    assert not part.recorded
    assert (outcome.acknowledged, outcome.failed, outcome.generated) == (6, 3, 9)
    assert outcome.errors == {"REQUEST_TIMED_OUT": 3}
    assert (outcome.start_us, outcome.end_us, outcome.interval_ns) == (5000, 8000, 1_000_000)
    assert (outcome.host, outcome.stopped, outcome.failure) == ("h", True, "It died.")
    assert outcome.spec.share == Share(1, 2)
    assert combined_outcome(whole, [outcome], 0).failure == "It died."


def test_what_a_dead_consumer_had_read_is_salvaged(tmp_path: Path) -> None:
    whole = ConsumeSpec(Access("localhost:1"), "t", 100)
    given = order(whole, tmp_path)
    directory = given.shared.directory(1)
    directory.mkdir()
    (directory / "begun").write_text('{"host": "h", "start_us": 5000, "wall_start_us": 9}')
    rows_of(
        "reads",
        {"partition": 1, "records": 4, "bytes": 100, "time_us": 7000, "broker_rack": 0},
        {"partition": 3, "records": 0, "error": 6, "time_us": 9000, "broker_rack": 0},
        {"partition": 1, "records": 3, "bytes": 50, "time_us": 8000, "broker_rack": -1},
    ).tofile(raw_path(directory, "reads"))
    part = salvaged_result(given, 1, "It died.")
    assert part is not None
    outcome = part.outcome
    assert (outcome.records, outcome.bytes, outcome.partitions) == (7, 150, 2)
    assert (outcome.end_us, outcome.stopped, outcome.failure) == (9000, True, "It died.")
    # Another worker that went on has read the rest: the run has failed all the same.
    rest = replace(outcome, records=93, racks=("a", "b"), failure="", stopped=True)
    combined = combined_outcome(whole, [rest, outcome], 77)
    assert (combined.records, combined.stopped, combined.failure) == (100, False, "It died.")
    # Of the dead one's answers nobody knows the rack.
    (seen,) = reads_of(combined, [part])
    assert seen[:, COLUMNS["reads"].index("broker_rack")].tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("tampered", "told"),
    [
        (lambda content: b"\x80\x04\x8e" + (2 << 30).to_bytes(8, "little"), "codec"),
        (lambda content: b"", "Expecting"),
        (lambda content: content[:-20], "Expecting|delimiter|Unterminated"),
        (lambda content: b"[" * 100_000, "nested too deeply"),
        (lambda content: b"[]", "Expected `object`, got `array`"),
        (lambda content: changed(content, "stopped", "yes"), "Expected `bool`, got `str`"),
        (lambda content: changed(content, "generated", 10**30), "number is too large"),
        (lambda content: changed(content, "start_us", 1.5), "Expected `int`, got `float`"),
        (lambda content: changed(content, "host", "\ud800"), "truncated|malformed"),
        (lambda content: changed(content, "spec", None), "Expected `object`, got `null`"),
        (lambda content: changed(content, "acknowledged"), "missing required field `acknowledged`"),
        (lambda content: content.replace(b'"acks":-1', b'"acks":0'), "needs acks=all"),
    ],
)
def test_an_outcome_that_somebody_wrote_over_is_what_the_rows_tell(
    tmp_path: Path, tampered: Callable[[bytes], bytes], told: str
) -> None:
    """What else he cannot do: `security/test_shared_folder.py`."""
    given = order(ProduceSpec(Access("h:1"), "t", 100, 1000), tmp_path)
    directory = given.shared.join(0)
    begun = RunStart("h", 5000, 9)
    begun.write(directory)
    rows_of("batches", {"records": 4, "acked_us": 7000}).tofile(raw_path(directory, "batches"))
    given.shared.finish(0, salvaged_outcome(given.specs[0], begun, directory, ""))
    whole = finished_result(given, 0)
    assert whole
    assert (whole.outcome.acknowledged, whole.outcome.failure) == (4, "")

    left = directory / "outcome"
    left.write_bytes(tampered(left.read_bytes()))
    part = finished_result(given, 0)
    assert part
    assert part.outcome.acknowledged == 4
    assert part.outcome.spec == given.specs[0]
    assert re.search(f"{left} is damaged.*({told})", part.outcome.failure)


def changed(content: bytes, name: str, *value: object) -> bytes:
    """The document with another value of that name, or without it."""
    document = json.loads(content)
    del document[name]
    return json.dumps(document | dict.fromkeys([name] * len(value), *value)).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [("begun", b'{"host": "h"}'), ("names.json", b'{"hint_endpoint": "h:1"}'), ("begun", b"\xff")],
)
def test_what_is_salvaged_from_is_read_as_strictly(
    tmp_path: Path, name: str, content: bytes
) -> None:
    given = order(ProduceSpec(Access("h:1"), "t", 100, 1000), tmp_path)
    directory = given.shared.join(0)
    RunStart("h", 5000, 9).write(directory)
    (directory / name).write_bytes(content)
    with pytest.raises(DamagedError, match=f"{directory / name} is damaged"):
        salvaged_result(given, 0, "")


def test_a_start_that_somebody_wrote_over_is_an_error(tmp_path: Path) -> None:
    shared = SharedFolder.prepare(tmp_path, 1)
    shared.start_file.write_text("soon\n")
    with pytest.raises(DamagedError, match=f"{shared.start_file} is damaged"):
        shared.start_wall_us()


LOGINS = (
    Sasl("PLAIN", "alice", "hunter2"),
    Sasl(OAUTHBEARER, token=FileToken(Path("/token")), extensions=(("a", "b"),)),
    Sasl(OAUTHBEARER, token=UnsignedToken((("sub", "me"), ("n", 1.5)))),
    Sasl(OAUTHBEARER, token=ClientCredentials("https://a", "me", "hunter2", "", Tls("PEM"))),
    Sasl(OAUTHBEARER, token=MskToken("eu-west-1", "ops", "arn", "me", "external", "us-west-2")),
)


def test_every_source_of_tokens_is_sent_with_an_order() -> None:
    assert {type(login.token) for login in LOGINS} == {*TOKEN_SOURCES, type(None)}
    assert kinds_of(TokenSource) == {kind.__name__ for kind in TOKEN_SOURCES}


def kinds_of(kind: type) -> set[str]:
    """The names of the classes that are of this kind and of which no other is."""
    below = kind.__subclasses__()
    return set().union(*map(kinds_of, below)) if below else {kind.__name__}


@pytest.mark.parametrize("login", LOGINS)
def test_an_order_is_carried_out_elsewhere_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: Sasl
) -> None:
    address_map = parse_map(["kafka1:9092=[::1]:1"])
    access = Access(
        "h:1", Security(Tls("PEM", ciphers=("A",)), login), address_map, {"a": "b"}, "prod"
    )
    given = WorkOrder.of(
        [
            ConsumeSpec(access, "t", 1 << 62, partitions=(1, 2)),
            ProduceSpec(access, "t", 5, 0.5, payload_file=Path("/payloads"), share=Share(1, 2)),
        ],
        SharedFolder(tmp_path, "token"),
        tmp_path / "run",
    )
    carried_out = []

    def run(received: WorkOrder, worker: int, gather: Gather) -> None:
        carried_out.append(received)

    monkeypatch.setattr(worker_module, "run_worker", run)
    answer = decoded(work(encoded(given), 0, barrier(1)(0)), Answer, "It")
    assert carried_out == [given]
    assert type(carried_out[0].specs[1]) is ProduceSpec
    assert answer.error is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UsageError("what", "next"), UsageError),
        (AuthenticationError("what"), RefusedError),  # of its status
        (KipctlError("what"), KipctlError),
        *((kind("what"), kind) for kind in KipctlError.__subclasses__() if kind in IN_ERRORS),
    ],
)
def test_what_kept_a_worker_from_beginning_is_told_as_an_error_of_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: KipctlError, kind: type[KipctlError]
) -> None:
    monkeypatch.setattr(worker_module, "run_worker", lambda *_: error)
    order = encoded(WorkOrder.of([], SharedFolder(tmp_path, ""), None))
    told = decoded(work(order, 0, barrier(1)(0)), Answer, "It").error
    assert told
    assert type(told) is kind
    assert (told.what, told.next_step, told.status) == (error.what, error.next_step, error.status)


def test_racks_are_numbered_anew_when_workers_are_taken_together(tmp_path: Path) -> None:
    parts, asked = [], ConsumeSpec(Access("localhost:1"), "t", 1)
    for number, racks in enumerate((("b", "c"), ("a", "b"))):
        directory = tmp_path / str(number)
        directory.mkdir()
        seen_racks = (
            {"broker_rack": rack, "time_us": 10 * number + rack + 2} for rack in (0, 1, -1)
        )
        rows_of("reads", *seen_racks).tofile(raw_path(directory, "reads"))
        outcome = salvaged_outcome(asked, RunStart("h", 1, 1), directory, "")
        parts.append(ProbeResult(replace(outcome, racks=racks), directory))
    whole = combined_outcome(asked, [part.outcome for part in parts], 1)
    racks = [*whole.racks, None]
    seen = np.concatenate([*reads_of(whole, parts)])[:, COLUMNS["reads"].index("broker_rack")]
    assert [racks[number] for number in seen] == ["b", "c", None, "a", "b", None]


def test_moments_move_and_never_stays_never() -> None:
    rows = rows_of("batches", {"sent_us": 0, "acked_us": 50, "records": 3, "intended_us": 10})
    (later,) = [
        dict(zip(COLUMNS["batches"], row, strict=True)) for row in shifted(rows, "batches", 100)
    ]
    assert (later["sent_us"], later["acked_us"], later["intended_us"]) == (0, 150, 110)
    assert later["records"] == 3
    assert shifted(rows, "batches", 0) is rows
    (rpc,) = shifted(rows_of("rpcs", {"sent_us": 7, "queued_behind_us": 9}), "rpcs", 1)
    assert rpc[COLUMNS["rpcs"].index("queued_behind_us")] == 9


def test_a_salvaged_worker_takes_no_other_ones_place_in_the_record(tmp_path: Path) -> None:
    """One has not begun: those behind it keep their numbers."""
    given = order(ProduceSpec(Access("h:1"), "t", 4000, 1000), tmp_path, 4)
    record = tmp_path / "run"
    begun = RunStart("h", 1000, 1000)

    def settled(worker: int, records: int) -> Path:
        directory = given.shared.join(worker)
        begun.write(directory)
        rows_of("batches", *[{"records": 1}] * records).tofile(raw_path(directory, "batches"))
        return directory

    for worker in (0, 2):
        directory = settled(worker, 1000)
        outcome = salvaged_outcome(given.specs[worker], begun, directory, "")
        for dataset in outcome.datasets:
            Run(record).write(dataset, record_batches(outcome, directory, dataset), worker)
        given.shared.finish(worker, outcome)
    given.shared.join(1)
    settled(3, 10)
    results = (finished_result(given, w) or salvaged_result(given, w, "died") for w in range(4))
    parts = [part for part in results if part]
    Recorder(Run(record), "perf produce", "t", {}, {}).write_rows(1000, parts, [])
    of_clients = Run(record).read("batches").group_by("client").aggregate([("records", "sum")])
    assert sorted(row["records_sum"] for row in of_clients.to_pylist()) == [10, 1000, 1000]
