"""Options that do not go together, or mean nothing: what is said of them before anything begins.

That each option is refused before is in test_before_anything_begins.py; here is in which words.
"""

import shlex
import socket
from pathlib import Path

import pytest
from in_process import kipctl
from nothing_begun import outcome

REFUSED = {
    "reassign": [
        ("", "Give one of --rotate, --leaders-off,"),
        ("--topic t", "Give one of --rotate, --leaders-off,"),
        ("--rotate --plan f", "--rotate and --plan exclude one another"),
        ("--drain", "Option '--drain' requires an argument.\nSee `kipctl reassign --help`."),
        ("--list --verify f --drain 1", "--drain and --list and --verify exclude"),
        ("--rotate --cancel", "Did you mean 'kipctl changes cancel'?"),
        ("--rollback", "Did you mean 'kipctl undo'?"),
        ("--rotate --yes", "--rotate with --yes needs --topic or --all-topics"),
        ("--rotate --topic t --all-topics", "--all-topics exclude one another"),
        ("--drain 1 --all-topics", "--all-topics goes only with --rotate"),
        ("--plan f --topic t", "--topic goes only with --rotate or --leaders-off or"),
        ("--drain 1 --throttle 10MB", "'10MB' is not a rate. Did you mean 10000kB/s?"),
        ("--drain 1 --throttle 80Mbit/s", "Did you mean 10000kB/s?"),
        ("--drain 1 --throttle 10MiB/s", "Did you mean 10486kB/s?"),
        ("--drain 1 --throttle 100Mbps", "Did you mean 12500kB/s?"),
        ("--drain 1 --throttle 10mb/s", "'10mb/s' is not a rate.\n"),  # bits or bytes
        ("--drain 1 --throttle 50", "'50' is not a rate.\n"),
        ("--drain 1 --throttle much", "'much' is not a rate.\n"),
        ("--list --dry-run", "--dry-run goes only with --rotate or"),
        ("--list --force", "--force goes only with --rotate or"),
        ("--list --additional", "--additional goes only with --rotate or"),
        ("--rotate --topic t --measure --dry-run", "--measure and --dry-run exclude one another"),
        ("--rotate --topic t --batch 0", ": 0 is too small: 1 is the least."),
        ("--rotate --topic t --batch 10001", ": 10001 is too large: 10000 is the most."),
        ("--rotate --topic t --batch ten", ": 'ten' is not a whole number."),
        ("--list --output xml", "'--output' / '-o': 'xml' is not one of 'auto', 'table', 'wide',"),
        ("--rotate --topic t --between soon", "not a duration"),
        ("--rotate --topic t --timeout 0", "more than 0"),
        ("--plan {broken} --yes", "{broken}: line 1 column 17: this is not JSON"),
        ("--verify {broken} --yes", "{broken}: line 1 column 17: this is not JSON"),
    ],
    "changes cancel": [("--plan f --all", "--plan and --all exclude one another")],
    "changes undo": [("2026 --journal f", "ENTRY and --journal exclude one another")],
    "elect preferred": [("--broker one", ": 'one' is not a whole number.")],
    "inspect replica-selection": [
        ("--price-per-gb free", ": 'free' is not a number."),
        ("--explain t:0 --watch", "--explain and --watch exclude one another"),
        ("--explain t:0 --require-local 95%", "--explain and --require-local exclude one another"),
        ("--watch --client librdkafka", "--watch and --client exclude one another"),
        ("--watch --rate-over 5", "--watch and --rate-over exclude one another"),
        ("--for 5", "--for goes only with --watch."),
        ("--price-per-gb 0.02", "--price-per-gb goes only with --rate-over."),
        ("--require-local most", "'most' is no percentage"),
        ("--client kafka-python", "kafka-python"),
        ("--explain t", "'t' is not a partition"),
        ("--explain t:0 --topic u", "--explain and --topic exclude one another"),
    ],
    "request-log on": [
        ("--for 5s", "Give one of --broker, --all-brokers."),
        ("--for 5s --broker 1 --all-brokers", "--broker and --all-brokers exclude one another"),
        ("--all-brokers", "Give one of --for, --until-off."),
        ("--all-brokers --for 5s --until-off", "--for and --until-off exclude one another"),
    ],
    "perf produce": [
        ("--count 3", "--count goes only with --during."),
        ("--every 3s", "--every goes only with --during."),
        ("--record-size 10 --payload-file f", "--record-size and --payload-file exclude"),
    ],
    "perf consume": [
        ("--topic t --offset 1 --from-latest", "--offset and --from-latest exclude one another"),
        ("--topic t --partition t:1 --offset 5", "--offset goes only with --num-records."),
    ],
    "perf e2e": [
        ("--forever --num-records 3", "--forever and --num-records exclude one another"),
        ("--keep 1h", "--keep goes only with --forever."),
    ],
    "tap": [("--ca f", "--ca goes only with --tls-to-brokers.")],
    "experiment redirect": [
        ("--scale large", "--scale is large; it is default or kip"),
        ("--quick --scale kip", "--quick and --scale kip cannot both be"),
        ("--curve a", "--curve is for --predict"),
        ("--gain-curve --stale-metadata 1s", "A gain curve has its own staleness"),
        ("--acks 0", "--acks is 0; it is one of 1, all"),
        ("--every 20 --num-records 1000", "no rotation is due within them"),
        ("--brokers 0", "A lab has 1 to 100 brokers, not 0"),
        ("--predict --curve never --bootstrap-server 127.0.0.1:1", "There is no run 'never-*'"),
        ("--predict --curve ./never --bootstrap-server 127.0.0.1:1", "No whole run is recorded"),
    ],
    "experiment roll": [
        ("--acks 1,2", "--acks '2': it must be all, 1, or all,1."),
        ("--partitions '100;6'", "--partitions '100;6' is no list of numbers."),
        ("--partitions 6,0", "--partitions is 0; it must be at least 1."),
        ("--runs 0", "--runs is 0; it must be at least 1."),
        ("--restarts -1", "--restarts is -1; it must be at least 0."),
        ("--throughput 0", "--throughput must be above 0."),
        ("--arms probe", "'probe' is no arm."),
    ],
    "experiment closest-replica": [("--arms kafka-python", "'kafka-python' only produces")],
    "experiment batch": [
        ("--batches 1,some", "--batches '1,some' are no batch sizes."),
        ("--acks 2", "--acks is 2; it is one of all, 1."),
        ("--throughput 0", "--throughput must be above 0."),
    ],
    "experiment metadata": [
        ("--arms probe-kip951", "'probe-kip951' is no client of this experiment."),
        ("--phase startup --phase never", "Invalid value for '--phase'"),
    ],
}


@pytest.mark.parametrize(
    ("command", "options", "says"),
    [(command, *row) for command, rows in REFUSED.items() for row in rows],
)
def test_wrong_usage_is_told_in_plain_words(
    command: str, options: str, says: str, tmp_path: Path
) -> None:
    broken = tmp_path / "plan.json"
    broken.write_text('{"partitions": [}')
    words = [*command.split(), *shlex.split(options.replace("{broken}", str(broken)))]
    ended = outcome(words, tmp_path)
    assert ended.is_wrong_usage, ended
    assert says.replace("{broken}", str(broken)) in ended.err


def test_a_bootstrap_server_that_is_none(tmp_path: Path) -> None:
    """By the variable; by the option it is refused by each command: see wrong_options.py."""
    ended = outcome(["inspect", "leaders"], tmp_path, servers="localhost")
    assert ended.is_wrong_usage, ended
    assert "localhost" in ended.err


@pytest.mark.parametrize(
    "command",
    [
        "reassign --rotate --all-topics --yes",
        "reassign --list",
        "undo --yes",
        "changes cancel --yes",
        "elect preferred --all",
        "elect unclean --all --yes",
        "inspect leaders",
        "inspect hints",
        "inspect replica-selection",
        "conform broker",
        "request-log status",
        "request-log off",
        "request-log on --all-brokers --until-off --yes",
        "request-log on --all-brokers --for 5s --yes",
    ],
)
def test_an_unreachable_cluster(command: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening: it refuses connections
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        said = kipctl(*command.split(), KIPCTL_BOOTSTRAP_SERVER=address)
    assert (said.status, said.out) == (3, "")
    assert len(said.err.splitlines()) <= 3
    assert address in said.err
    assert "Check --bootstrap-server" in said.err
