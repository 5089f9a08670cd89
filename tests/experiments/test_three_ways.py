"""One run seen three ways at once: by the probe, by the tap it went through, by request logs."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest

from kipctl.cluster.topics import await_topic, create_topics
from kipctl.experiments.arms.figures import figures
from kipctl.lab.cluster import Lab
from kipctl.measure.moves import MOVE_COLUMNS, moves
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.runs.actions import parse_action
from kipctl.runs.execute import Listeners
from kipctl.runs.produce import PerfPlan, produce
from kipctl.runs.tap import TapPlan, tap
from kipctl.tap.spec import TapSpec
from kipctl.trace.codes import Decision
from kipctl.trace.store import Run
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

CLIENT = "watched"
PARTITIONS = 30
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
NO_HINT = {Decision.ABSENT.name.lower(), Decision.NOT_APPLICABLE.name.lower()}


def rows(folder: Path, dataset: str) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = pq.read_table(folder / dataset).to_pylist()
    return [row for row in read if row["client"] == CLIENT]


def seen(folder: Path) -> dict[str, int]:
    """What a recorded run counts."""
    requests = Counter(rpc["api_key"] for rpc in rows(folder, "rpcs"))
    refused = [row for row in rows(folder, "redirects") if row["error"] == NOT_LEADER]
    return {
        "produce": requests[ApiKey.PRODUCE],
        "metadata": requests[ApiKey.METADATA],
        "not_leader": len(refused),
        "hints": sum(row["decision"] not in NO_HINT for row in refused),
    }


def moved_leaders(folder: Path) -> set[tuple[int, int, int]]:
    """The moves that a recorded run met: partition, new epoch, and refusals by the new leader."""
    found = moves(figures(Run(folder)).redirect_rows)
    columns = [MOVE_COLUMNS.index(name) for name in ("partition", "epoch", "not_ready")]
    return {tuple(move) for move in found[:, columns].tolist()}


def log_lines(lab: Lab) -> Iterator[dict[str, Any]]:
    """What the brokers' request logs say of the client, read with nothing but a JSON parser."""
    for node in lab.nodes:
        if not node.request_log_path.exists():
            continue
        for line in node.request_log_path.read_text(encoding="utf-8").splitlines():
            _, found, text = line.partition("Completed request:")
            if not found:
                continue
            request: dict[str, Any] = json.loads(text[: text.rindex("}") + 1])
            if request["requestHeader"]["clientId"] == CLIENT:
                yield request


def refusals(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for topic in request["response"].get("responses", ()):
        for partition in topic.get("partitionResponses", ()):
            if partition["errorCode"] == NOT_LEADER:
                yield partition


def named_in_logs(lab: Lab) -> set[tuple[int, int]]:
    """The partitions and new epochs that refusals named."""
    return {
        (partition["index"], partition["currentLeader"]["leaderEpoch"])
        for request in log_lines(lab)
        for partition in refusals(request)
        if "currentLeader" in partition
    }


def logged(lab: Lab) -> dict[str, int]:
    """What the brokers' request logs count."""
    counts: Counter[str] = Counter()
    for request in log_lines(lab):
        counts[request["requestHeader"]["requestApiKeyName"].lower()] += 1
        for partition in refusals(request):
            counts["not_leader"] += 1
            counts["hints"] += partition.get("currentLeader", {}).get("leaderId", -1) >= 0
    return {name: counts[name] for name in ("produce", "metadata", "not_leader", "hints")}


@pytest.mark.parametrize("acks", [1, -1])
def test_counts_are_equal_and_latencies_agree(
    make_lab: Callable[..., Lab], tmp_path: Path, acks: int
) -> None:
    """Latencies of redirected batches, batch by batch: to 50 us or 1 % for the best of them.

    The others have in them how late a busy machine let the one process or the other run; what the
    clocks or the bookkeeping had wrong would be in all of them.
    """
    lab = make_lab(request_log=True)
    create_topics(lab.bootstrap_server, ["seen"], PARTITIONS, 3)
    with Cluster(lab.bootstrap_server) as cluster:
        await_topic(cluster, "seen", PARTITIONS)
    plan = TapPlan(TapSpec(access=lab.access), tmp_path / "tap")

    def run(through: Any) -> None:
        produce(
            PerfPlan(
                probe=ProduceSpec(
                    Access(through.bootstrap_server),
                    "seen",
                    num_records=8000,
                    throughput=1000,
                    config=ProducerConfig(
                        acks=acks,
                        enable_idempotence=False,
                        client_id=CLIENT,
                        partitioner="round-robin",
                    ),
                ),
                during=parse_action("rotate"),
                every_s=1.5,
                count=3,
                record=tmp_path / "probe",
            ),
            Listeners(),
        )

    tap(plan, run)

    by_probe = seen(tmp_path / "probe")
    assert by_probe["not_leader"]
    assert by_probe["hints"]
    assert seen(tmp_path / "tap") == by_probe
    assert logged(lab) == by_probe
    met = moved_leaders(tmp_path / "probe")
    assert met
    assert {move[:2] for move in moved_leaders(tmp_path / "tap")} == {move[:2] for move in met}
    named = named_in_logs(lab)
    for partition, epoch, not_ready in met:
        # A leader that is not ready names an older one, or none.
        assert (partition, epoch) in named or not_ready

    probed, tapped = (
        {
            (row["partition"], row["base_offset"]): row["acked_us"] - row["sent_us"]
            for row in rows(tmp_path / side, "batches")
            if row["attempts"] > 1
        }
        for side in ("probe", "tap")
    )
    assert set(probed) == set(tapped)
    apart = sorted(abs(probed[batch] - tapped[batch]) for batch in probed)
    assert apart[0] <= max(50, 0.01 * median(probed.values()))
