"""`kipctl experiment redirect` on real brokers: arms, conditions, the record, a prediction."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from no_own_topics import await_no_own_topics
from one_process import in_this_process

from kipctl.experiments.arms.figures import figures
from kipctl.experiments.redirect import plan
from kipctl.lab.cluster import Lab
from kipctl.protocol.api import ApiKey
from kipctl.trace.store import Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
Experiment = Callable[[str], dict[str, Any]]
WAITS = ("backoff", "metadata", "connect")
"""Of a client, between an error and the next attempt."""


@pytest.fixture(autouse=True)
def cold_brokers(plans_have: Callable[..., None]) -> None:
    """What is compared differs by more than a compiler brings."""
    plans_have(plan, "RedirectPlan", broker_warmup_s=0.0)


def longest_waits_ms(run: Run) -> list[float]:
    """After each rotation: the longest time from a batch's first error to its last attempt."""
    called_us = [1000 * action["called_ms"] for action in run.description["summary"]["actions"]]
    batches: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in run.read("redirects").to_pylist():
        batches.setdefault((row["partition"], row["first_seq"]), []).append(row)
    waits: list[list[float]] = [[] for _ in called_us]
    for attempts in batches.values():
        first, last = attempts[0], attempts[-1]
        sent_us = last["error_us"] + sum(last[f"{wait}_us"] for wait in WAITS)
        if number := sum(first["error_us"] >= us for us in called_us):
            waits[number - 1].append((sent_us - first["error_us"]) / 1000)
    return [max(of_one) for of_one in waits if of_one]


@pytest.mark.usefixtures("until_met")
def test_with_stale_metadata_only_hints_find_the_leader_and_the_runs_predict_what_they_save(
    lab: Lab, experiment: Experiment, tmp_path: Path
) -> None:
    document = experiment(
        "redirect --quick --runs 1 --partitions 12 --stale-metadata 800ms --record curve"
        " --num-records 100000 --throughput 100 --arms probe-baseline,probe-kip951",
    )
    arms = {arm["arm"]: arm for arm in document["arms"]}
    for arm in arms.values():
        assert arm["records"]["failed"] == 0
        assert arm["rotations"] == 2
        assert arm["redirects"]["batches"] > 0
        assert arm["client_says"][0]["records"] == arm["records"]["acknowledged"]
    # Who waits for Metadata cannot know the new leader before it shows it.
    assert arms["probe-baseline"]["latency_ms"]["p999"] > 800
    assert arms["probe-kip951"]["redirects"]["hints"]["followed"] > 0
    waits_ms = longest_waits_ms(Run(tmp_path / "curve-stale-800ms.probe-baseline.1"))
    assert len(waits_ms) == 2
    assert min(waits_ms) > 700
    # Brokers have no hint now and then: the best of those that had one.
    hinted = Run(tmp_path / "curve-stale-800ms.probe-kip951.1").read("redirects").to_pylist()
    followed = [row for row in hinted if row["decision"] == "followed"]
    assert min(sum(row[f"{wait}_us"] for wait in WAITS) for row in followed) < 700_000
    assert document["stale_metadata_ms"] == 800
    (compared,) = document["comparisons"]
    assert (compared["without"], compared["with"]) == ("probe-baseline", "probe-kip951")

    recorded = sorted(tmp_path.iterdir())
    assert [folder.name for folder in recorded] == [
        "curve-stale-800ms.probe-baseline.1",
        "curve-stale-800ms.probe-kip951.1",
    ]
    for folder, arm in zip(recorded, arms.values(), strict=True):
        assert read_stored_run(folder).flaw == ""
        shown = in_this_process("runs", "show", folder.name, KIPCTL_RUNS=str(tmp_path))
        assert shown.status == 0
        assert f"leader discovery {arm['arm'].removeprefix('probe-')}" in shown.out
        assert figures(Run(folder)).latency.as_ms() == arm["latency_ms"]

    predicted = experiment("redirect --predict --curve curve")["prediction"]
    assert {saving["behind_statistic"] for saving in predicted["savings"]} == {"p50", "p99", "max"}
    assert len(predicted["brokers"]) == 3
    assert predicted["savings"][0]["without_ms"] == arms["probe-baseline"]["move_wait_ms"]
    with Cluster(lab.bootstrap_server) as cluster:
        await_no_own_topics(cluster)


def test_other_clients_are_measured_by_the_same_rule_and_a_cap_takes_hints_away(
    experiment: Experiment, tmp_path: Path
) -> None:
    """Their records are due from when they have started, and rotations from when the tap has seen
    the first: in 7 s, on a machine that is busy too, the first rotation comes well before the end.
    """
    document = experiment(
        "redirect --quick --runs 1 --partitions 12 --num-records 525 --throughput 75 --every 1.5s"
        " --record other --arms java-4.3.1-capped,java-4.3.1,librdkafka-1ms",
    )
    arms = {arm["arm"]: arm for arm in document["arms"]}
    for name, arm in arms.items():
        assert arm["records"]["failed"] == 0, name
        assert arm["client_says"][0]["records"] == arm["records"]["acknowledged"]
        assert arm["redirects"]["batches"] > 0, name
    assert arms["java-4.3.1-capped"]["redirects"]["hints"]["present"] == 0
    for name in ("java-4.3.1", "librdkafka-1ms"):
        assert arms[name]["redirects"]["hints"]["present"] > 0, name
    versions = {}
    for name in arms:
        rpcs = Run(tmp_path / f"other-{name}.1").read("rpcs").to_pylist()
        versions[name] = {r["api_version"] for r in rpcs if r["api_key"] == ApiKey.PRODUCE}
    assert versions == {"java-4.3.1-capped": {9}, "java-4.3.1": {13}, "librdkafka-1ms": {10}}


def test_any_program_is_measured_with_hints_and_without(lab: Lab) -> None:
    program = f"{sys.executable} -m kipctl perf produce --bootstrap-server {{bootstrap}} "
    program += "--topic {topic} --num-records {records} --throughput {rate} --force"
    ran = in_this_process(
        *("experiment", "redirect", "--quick", "--runs", "1", "--partitions", "6"),
        *("--num-records", "600", "--throughput", "75", "--every", "2s"),
        *("--arms", f"mine={program}", "--bootstrap-server", lab.bootstrap_server, "-o", "json"),
    )
    assert ran.status == 0, ran.err
    arms = {arm["arm"]: arm for arm in ran.document["arms"]}
    assert list(arms) == ["mine-unhinted", "mine"]
    assert arms["mine-unhinted"]["redirects"]["hints"]["present"] == 0
    assert arms["mine"]["redirects"]["batches"] > 0
    (compared,) = ran.document["comparisons"]
    assert (compared["without"], compared["with"]) == ("mine-unhinted", "mine")
