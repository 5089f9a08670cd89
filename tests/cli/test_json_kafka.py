"""What commands print as JSON on a real cluster is what the committed schema says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import OnLab
from json_documents import require_declared
from jsonschema import Draft202012Validator
from on_lab import topics_on
from one_process import OneProcess

from kipctl.documents.commands import DOCUMENTS
from kipctl.documents.schema import FILE
from kipctl.lab.cluster import Lab
from kipctl.trace.stored_runs import RUNS_VARIABLE

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCHEMA = Draft202012Validator(json.loads((Path(__file__).parents[2] / FILE).read_text()))
TOPIC = "as-json"
LOAD = "--num-records 300 --throughput 300 --topic as-json --force"
LOOKS = f"""
inspect brokers
inspect leaders --topic {TOPIC}
inspect metadata --topic {TOPIC}
inspect metadata --measure-convergence --moves 1
inspect hints
inspect replica-selection --topic {TOPIC}
conform broker --topic {TOPIC}
clusters list
clusters test
lab status
request-log status
wait --until in-sync --topic {TOPIC}
throttle show
throttle set 50MB/s --dry-run
reassign --list
reassign --rotate --topic {TOPIC} --dry-run
reassign --rotate --all-topics --dry-run
reassign --drain 1 --topic {TOPIC} --dry-run
roll --exec 'restart {{broker}}' --dry-run
reassign --rotate --topic {TOPIC} --yes
elect preferred --topic {TOPIC} --dry-run
elect preferred --topic {TOPIC} --yes
changes list
changes show
undo --yes
request-log on --all-brokers --until-off --yes
perf produce --record-size 100 {LOAD} --record RUNS/a --during rotate --every 0.4 --count 1
request-log off
perf produce --record-size 100 {LOAD} --record RUNS/b
perf consume --num-records 100 --topic {TOPIC} --client-rack rack-1 --record RUNS/read
perf e2e {LOAD} --record RUNS/both
tap --for 1s
runs list
runs show a
runs export a RUNS/../a.csv
runs remove read --yes
explain
explain few-moves
"""
ON_SPARK = """
analyze a both
analyze a --by partition,window
analyze request-log LOG
request-log pack LOG --to RUNS/../packed
analyze request-log LOG --by broker,client_id,software,origin
runs compare a b
report a --html RUNS/../a.html
spark status
"""
ABOUT_THE_CLUSTER = (
    *(f"inspect {name}" for name in ("brokers", "hints", "leaders", "metadata --topic")),
    *("inspect replica-selection", "request-log", "elect preferred", "perf produce"),
    "clusters test",
)
"""Their documents say which."""
ELSEWHERE = {
    "demo",
    "elect unclean",
    "perf metadata",
    "runs repair",
    "undo",
    *(f"conform {name}" for name in ("explain", "list", "run", "serve")),
    *(f"experiment {name}" for name in ("batch", "closest-replica", "metadata", "redirect")),
    *(f"experiment {name}" for name in ("roll", "run")),
}
"""These break the cluster, or have one of their own, or print the document of another command:
their own tests hold what they print."""


@pytest.fixture
def topic(lab: Lab) -> Iterator[str]:
    with topics_on(lab) as make:
        yield make(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])


@pytest.mark.usefixtures("topic")
def test_every_command(lab: Lab, kipctl_again: OneProcess, tmp_path: Path) -> None:
    state = tmp_path / "state"
    runs = state / "kipctl" / "runs"
    documents: dict[str, dict[str, Any]] = {}
    on_lab = OnLab(lab.bootstrap_server, state)
    for node in lab.nodes:
        node.request_log_path.write_text("")  # what other tests have left of it
    for line in LOOKS.strip().splitlines():
        documents[line] = on_lab.kipctl(line.replace("RUNS", str(runs)), "-o json").document
        if line.startswith(ABOUT_THE_CLUSTER):
            about = {"name": "", "id": lab.cluster_id, "bootstrap_servers": lab.bootstrap_server}
            assert documents[line]["_cluster"] == about, line
    logs = f"{lab.folder}/broker-*/request.log"
    for line in ON_SPARK.strip().splitlines():
        words = line.replace("RUNS", str(runs)).replace("LOG", logs).split()
        said = kipctl_again(*words, "-o", "json", **{RUNS_VARIABLE: str(runs)})
        assert said.status == 0, (line, said.err)
        documents[line] = said.document
    for document in documents.values():
        require_declared(document)  # which says what is otherwise
        assert SCHEMA.is_valid(document)
    seen = [f"{document['_command']} " for document in documents.values()]
    left = {name for name in DOCUMENTS if not any(line.startswith(f"{name} ") for line in seen)}
    assert left == ELSEWHERE
