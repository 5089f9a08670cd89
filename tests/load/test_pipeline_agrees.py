"""One run seen several ways: by the probe that made it, by the tap that it went through, by the
brokers' request logs; and what is printed at once, what the pipeline says later.
"""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest
from one_process import OneProcess, in_this_process
from pyspark.sql import SparkSession
from until_met import MANY, UntilMet

from kipctl.cluster.request_log import set_level
from kipctl.documents.pages import RunPictures
from kipctl.documents.tap import TapDocument
from kipctl.experiments.arms.figures import figures
from kipctl.lab.cluster import Lab
from kipctl.load import measure
from kipctl.load.tap import TapPlan, tap
from kipctl.measure.moves import MOVE_COLUMNS, moves
from kipctl.pipeline.analysis import Question, analyse_runs
from kipctl.pipeline.pictures import report_document
from kipctl.pipeline.request_log import LogQuestion, analyse, read_request_log
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.report.html.answer import at_a_glance
from kipctl.report.tap_tables import clients_table
from kipctl.tap.spec import TapSpec
from kipctl.trace.codes import Decision
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

BROKERS = (1, 2, 3)
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
NO_HINT = {Decision.ABSENT.name.lower(), Decision.NOT_APPLICABLE.name.lower()}
RUNS = {
    "hinted": (LeaderDiscovery.KIP951, 1),
    "hinted-acks-all": (LeaderDiscovery.KIP951, -1),
    "baseline": (LeaderDiscovery.BASELINE, 1),
}
"""How a client of that name finds new leaders, and its acks."""
ROUND_ROBIN = "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"
ROTATING = (
    # The interval is no whole number of microseconds.
    "perf produce --throughput 330 --warmup-records 300 --record-size 100 "
    f"--partitions 12 --during rotate --every 1.2 --count 2 --command-property {ROUND_ROBIN}"
)
_LOGGED_S = 60.0


def printed(words: str, bootstrap_server: str) -> dict[str, Any]:
    """What a command printed as JSON."""
    ran = in_this_process(
        *words.split(), "--output", "json", KIPCTL_BOOTSTRAP_SERVER=bootstrap_server
    )
    assert ran.status == 0, ran.err
    return ran.document


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run by its client's name: what it printed, what was recorded, and the request logs."""

    client: str
    live: dict[str, Any]
    recorded: dict[str, Path]
    """By the probe and by the tap."""
    logs: tuple[Path, ...]

    def rows(self, dataset: str, side: str = "probe") -> list[dict[str, Any]]:
        """What the probe, or the tap, recorded of the client."""
        read: list[dict[str, Any]] = pq.read_table(self.recorded[side] / dataset).to_pylist()
        return [row for row in read if row["client"] == self.client]

    def refused(self, side: str = "probe") -> list[dict[str, Any]]:
        return [row for row in self.rows("redirects", side) if row["error"] == NOT_LEADER]

    def counts(self, side: str) -> dict[str, int]:
        """What the probe, or the tap, counts."""
        requests = Counter(rpc["api_key"] for rpc in self.rows("rpcs", side))
        refused = self.refused(side)
        return {
            "produce": requests[ApiKey.PRODUCE],
            "metadata": requests[ApiKey.METADATA],
            "not_leader": len(refused),
            "hints": sum(row["decision"] not in NO_HINT for row in refused),
        }

    def moved_leaders(self, side: str) -> set[tuple[int, int, int]]:
        """The moves that were met: partition, new epoch, and refusals by the new leader."""
        rows = moves(figures(Run(self.recorded[side])).redirect_rows)
        columns = [MOVE_COLUMNS.index(name) for name in ("partition", "epoch", "not_ready")]
        return {tuple(move) for move in rows[:, columns].tolist()}

    def logged(self) -> Iterator[dict[str, Any]]:
        """What the brokers logged of the client, read with nothing but a JSON parser."""
        for log in self.logs:
            for line in log.read_text(encoding="utf-8").splitlines():
                _, separator, text = line.partition("Completed request:")
                if separator:
                    request: dict[str, Any] = json.loads(text[: text.rindex("}") + 1])
                    if request["requestHeader"]["clientId"] == self.client:
                        yield request

    def logged_counts(self) -> dict[str, int]:
        """What the brokers' request logs count."""
        counts: Counter[str] = Counter()
        for request in self.logged():
            counts[request["requestHeader"]["requestApiKeyName"].lower()] += 1
            for partition in refusals(request):
                counts["not_leader"] += 1
                counts["hints"] += partition.get("currentLeader", {}).get("leaderId", -1) >= 0
        return {name: counts[name] for name in ("produce", "metadata", "not_leader", "hints")}


def refusals(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for topic in request["response"].get("responses", ()):
        for partition in topic.get("partitionResponses", ()):
            if partition["errorCode"] == NOT_LEADER:
                yield partition


def seen_run(lab: Lab, client: str, folder: Path) -> SeenRun:
    """A run with rotations, through a tap, its requests logged.

    A broker logs a request a moment after it has sent the answer: the copies are made once what the
    client has asked for is there.
    """
    discovery, acks = RUNS[client]
    recorded = {"probe": folder / client, "tap": folder / "tap"}
    live: list[dict[str, Any]] = []

    def run(through: Any) -> None:
        words = (
            f"{ROTATING} acks={acks} enable.idempotence=false client.id={client} "
            f"--leader-discovery {discovery} --num-records {MANY} --record {recorded['probe']}"
        )
        live.append(printed(words, through.bootstrap_server))

    tap(TapPlan(TapSpec(access=lab.access), recorded["tap"]), run)
    files = [file for broker in BROKERS for file in lab.node(broker).folder.glob("request.log*")]
    logs = tuple(folder / f"{number}.log" for number in range(len(files)))
    seen = SeenRun(client, live[0], recorded, logs)
    deadline = time.monotonic() + _LOGGED_S
    while True:
        for file, log in zip(files, logs, strict=True):
            shutil.copy(file, log)
        if seen.logged_counts() == seen.counts("probe") or time.monotonic() > deadline:
            return seen


@pytest.fixture(scope="module")
def seen(struck_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SeenRun]:
    """The run of each client. The logs of a later one have the earlier ones too."""
    with Cluster(struck_lab.access) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "PlannedActions", UntilMet)
        for broker in BROKERS:
            set_level(cluster, broker, "DEBUG")
        try:
            return {
                client: seen_run(struck_lab, client, tmp_path_factory.mktemp(client))
                for client in RUNS
            }
        finally:
            for broker in BROKERS:
                set_level(cluster, broker, "WARN")


@pytest.mark.parametrize("client", ["hinted", "hinted-acks-all"])
def test_counts_are_equal_and_latencies_agree(seen: dict[str, SeenRun], client: str) -> None:
    """Latencies of redirected batches, batch by batch: to 50 us or 1 % for the best of them, or to
    what the other batches are apart by at most: leaders move when the machine has most to do.

    The others have in them how late a busy machine let the one process or the other run; what the
    clocks or the bookkeeping had wrong would be in all of them.
    """
    run = seen[client]
    by_probe = run.counts("probe")
    assert by_probe["not_leader"]
    assert by_probe["hints"]
    assert run.counts("tap") == by_probe
    assert run.logged_counts() == by_probe
    met = run.moved_leaders("probe")
    assert met
    assert {move[:2] for move in run.moved_leaders("tap")} == {move[:2] for move in met}
    named = {
        (partition["index"], partition["currentLeader"]["leaderEpoch"])
        for request in run.logged()
        for partition in refusals(request)
        if "currentLeader" in partition
    }
    for partition, epoch, not_ready in met:
        # A leader that is not ready names an older one, or none.
        assert (partition, epoch) in named or not_ready

    def latencies_us(side: str, is_redirected: bool) -> dict[tuple[int, int], int]:
        return {
            (row["partition"], row["base_offset"]): row["acked_us"] - row["sent_us"]
            for row in run.rows("batches", side)
            if (row["attempts"] > 1) == is_redirected
        }

    def apart_us(is_redirected: bool) -> list[int]:
        probed, tapped = (latencies_us(side, is_redirected) for side in ("probe", "tap"))
        assert set(probed) == set(tapped)
        return [abs(probed[batch] - tapped[batch]) for batch in probed]

    least_us = max(50, 0.01 * median(latencies_us("probe", True).values()))
    assert min(apart_us(True)) <= max(least_us, *apart_us(False))


def test_request_logs_on_spark_have_the_same_counts(
    seen: dict[str, SeenRun], spark: SparkSession
) -> None:
    logs = [str(log) for log in seen["baseline"].logs]
    lines = read_request_log(spark, logs)
    document = analyse(lines, LogQuestion(("client_id",)))
    [read] = document["clusters"]
    assert document["lines"]["broken"] == 0
    clients = {row["client_id"]: row for row in read["clients"]}
    logged = {(row["client_id"], row["api"]): row["requests"] for row in read["apis"]}
    for run in seen.values():
        row = clients[run.client]
        assert (row["software"], row["origin"]) == ("kipctl", "client")
        # The brokers log ApiVersions and InitProducerId too, which the probe's set-up asked for.
        by_api = Counter(ApiKey(rpc["api_key"]).name for rpc in run.rows("rpcs"))
        for api in ("PRODUCE", "METADATA"):
            assert logged[run.client, api] == by_api[api]
    refused = [row for run in seen.values() for row in run.refused()]
    assert refused
    assert read["produce_not_leader"] == {
        "total": len(refused),
        "hinted": sum(row["decision"] != "absent" for row in refused),
        "appended_then_failed": sum(
            run.live["redirects"]["appended_then_failed"] for run in seen.values()
        ),
    }
    assert read["fetch_errors_by_reader"]["consumers"] == {}
    _agree_on_behaviour(seen, read)


def _agree_on_behaviour(seen: dict[str, SeenRun], read: dict[str, Any]) -> None:
    """What the probe does, by its hints, is what the brokers' lines show of it; their clocks are
    one, and count milliseconds."""
    clients = {row["client"].partition("@")[0]: row for row in read["refused_clients"]}
    for run in seen.values():
        row, refused = clients[run.client], run.refused()
        assert row["leader_errors"] <= len(refused)
        assert row["episodes"]["loops"] == 0
        assert row["followed_hints"]["present"] <= run.counts("probe")["hints"]
        told = {kind: row["episodes"][kind] for kind in ("followed", "by_metadata", "sent_back")}
        if RUNS[run.client][0] is LeaderDiscovery.KIP951:
            # A machine that stalls it has some look as if it were sent back, and not most.
            assert 2 * told["sent_back"] <= sum(told.values()) > 0
        assert row["wait_ms"]["p50"] is not None


@pytest.fixture
def of_workers(
    struck_lab: Lab, kipctl_again: OneProcess, tmp_path: Path
) -> tuple[Path, dict[str, Any]]:
    """The folder of a run of two workers on Spark, and what it printed."""
    folder = tmp_path / "workers"
    words = f"{ROTATING} acks=1 --workers 2 --num-records 1800 --record {folder} --output json"
    cluster = {"KIPCTL_BOOTSTRAP_SERVER": struck_lab.bootstrap_server}
    ran = kipctl_again(*words.split(), **cluster)
    assert ran.status == 0, ran.err
    clients = {row["client"] for row in Run(folder).read("redirects").to_pylist()}
    assert clients == {"kipctl-perf-0", "kipctl-perf-1"}
    return folder, ran.document


def test_live_and_pipeline_agree(
    seen: dict[str, SeenRun], of_workers: tuple[Path, dict[str, Any]], spark: SparkSession
) -> None:
    printed = {run.recorded["probe"]: run.live for run in seen.values()} | dict([of_workers])
    document = analyse_runs(spark, list(map(str, printed)), Question(("run",)))
    for folder, live in printed.items():
        read = {
            name: [row for row in document[name] if row["run"] == folder.name]
            for name in document["tables"]
        }
        assert live["redirects"]["errors"] > 0
        [records] = read["records"]
        assert records["acknowledged"] == live["records"]["acknowledged"]
        assert records["failed"] == live["records"]["failed"]
        assert records["records_per_second"] == live["records_per_second"]
        failed = {error_name(row["error"]): row["records"] for row in read["failures"]}
        assert failed == live["records"]["errors"]
        _agree_on_times(live, read)
        _agree_on_redirects(live["redirects"], *read["redirects"])
        _agree_on_moves(live["redirects"]["moves"], *read["moves"])
        _agree_on_metadata(live["metadata_rpcs"], read["metadata"])
        assert [row["called_ms"] for row in read["actions"]] == [
            action["called_ms"] for action in live["actions"]
        ]
        assert sum(row["redirected"] for row in read["actions"]) == live["redirects"]["batches"]


@pytest.mark.usefixtures("until_met")
def test_they_agree_on_what_a_consumer_met(
    struck_lab: Lab, spark: SparkSession, tmp_path: Path
) -> None:
    words = (
        f"perf e2e --num-records {MANY} --throughput 300 --partitions 12 --client-rack rack-2 "
        f"--during rotate --every 1.2 --count 2 --record {tmp_path / 'run'} "
        f"--producer-property {ROUND_ROBIN}"
    )
    live = printed(words, struck_lab.bootstrap_server)
    read = analyse_runs(spark, [str(tmp_path / "run")], Question(("run", "broker")))

    assert live["redirects"]["fetch"]["errors"] > 0
    by_broker = {
        (row["broker"], row["role"]): (row["responses"], row["records"], row["bytes"])
        for row in read["reads"]
    }
    assert by_broker == {
        (row["broker"], row["read_as"]): (row["answers"], row["records"], row["bytes"])
        for row in live["brokers"]
    }
    assert (
        sum(row["named_a_replica"] for row in read["reads"])
        == (live["fetches"]["preferred_replica_named"])
    )
    refused: Counter[str] = Counter()
    for row in read["read_errors"]:
        refused[row["name"]] += row["responses"]
    assert refused == live["fetches"]["errors"]
    for row in read["redirects"]:
        _agree_on_redirects(live["redirects"][row["api"]], row)
    assert [row["api"] for row in read["redirects"]][-1] == "produce"
    for row in read["moves"]:
        _agree_on_moves(live["redirects"][row["api"]]["moves"], row)
    assert [row["api"] for row in read["moves"]] == ["fetch", "produce"]
    redirected = sum(live["redirects"][api]["batches"] for api in ("produce", "fetch"))
    assert sum(row["redirected"] for row in read["actions"]) == redirected
    assert all(row["recovery_ms"] > 0 for row in read["actions"])
    assert any(row["during_read"] > 0 for row in read["actions"])


@pytest.mark.usefixtures("until_met")
def test_what_a_tap_says_is_what_a_page_of_its_record_says(
    struck_lab: Lab, spark: SparkSession, tmp_path: Path
) -> None:
    """Of producers and consumers, with hints and without."""
    for drops_hints in (False, True):
        record = tmp_path / f"tapped-{drops_hints}"
        spec = TapSpec(access=struck_lab.access, drop_hints=drops_hints)
        told = tap(TapPlan(spec, record), _two_commands)
        read = report_document(spark, [str(record)])
        _agree_with_tap(told, read)


def _two_commands(through: Any) -> None:
    often = f"--num-records {MANY} --throughput 300 --partitions 12 --during rotate --every 1.2"
    printed(
        f"perf e2e {often} --count 3 --producer-property client.id=writes "
        "--consumer-property client.id=reads",
        through.bootstrap_server,
    )
    words = f"perf produce {often} --count 3 --command-property client.id=app"
    printed(f"{words} --leader-discovery baseline", through.bootstrap_server)


def _agree_with_tap(told: TapDocument, read: RunPictures) -> None:
    glance = at_a_glance(read)
    clients = {client["client_id"]: client for client in told["clients"]}
    assert {"writes", "reads", "app"} <= clients.keys()
    of_tap = clients_table(told)
    for name in ("writes", "reads", "app"):
        client = clients[name]
        [row] = (row for row in read["arms"]["moves"] if row["arm"] == name)
        assert row["moves"] == client["moves"]["met"] > 0
        assert row["wait_ms"] == client["moves"]["wait_ms"]
        assert sum(row["by_wait"].values()) == client["moves"]["found"] > 0
        [shown] = (row for row in glance.rows if str(row[0]).startswith(name))
        [at_end] = (row for row in of_tap.rows if row[0] == name)
        for column in ("hints followed", "wait p50 ms", "moved leaders"):
            there = of_tap.titles.index(column)
            column = {"moved leaders": "leaders met"}.get(column, column)
            assert shown[glance.titles.index(column)] == at_end[there]
        if took := client["records_took_ms"]:
            [latency] = (
                row
                for row in read["arms"]["latency"]
                if (row["arm"], row["time"]) == (name, "latency")
            )
            assert {name: latency["time_ms"][name] for name in took} == took


def _agree_on_times(live: dict[str, Any], read: dict[str, Any]) -> None:
    for row in read["latency"]:
        shown = live[f"{row['time']}_ms"]
        for name in ("p50", "p95", "p99", "p999", "max"):
            assert row["time_ms"][name] == shown[name]
        assert round(row["time_ms"]["mean"], 4) == shown["mean"]
    assert [row["time"] for row in read["latency"]] == ["latency", "service"]


def _agree_on_redirects(live: dict[str, Any], row: dict[str, Any]) -> None:
    assert row["episodes"] == live["batches"]
    assert {"present": row["hints_present"], **row["hints"]} == live["hints"]
    for name in ("errors", "appended_then_failed", "same_epoch_retries", "phases_ms"):
        assert row[name] == live[name]
    assert row["client_share_ms"] == live["client_share_ms"]


def _agree_on_metadata(live: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert {row["cause"]: row["requests"] for row in rows} == live["by_cause"]
    assert sum(row["requests"] for row in rows) == live["total"]
    assert sum(row["critical"] for row in rows) == live["on_critical_path"]
    assert sum(row["bytes"] for row in rows) == live["bytes"]


def _agree_on_moves(live: dict[str, Any], read: dict[str, Any]) -> None:
    assert read["moves"] == live["met"] > 0
    assert read["not_ready"] == live["not_ready"]
    assert (read["by_wait"], read["wait_ms"]) == (live["by_wait"], live["wait_ms"])
