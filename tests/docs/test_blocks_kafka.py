"""Every console block of README.md and docs/ runs as it stands, and prints what the page says.

All pages share a lab of three brokers in three racks. Each begins with topics of its own, all
brokers running and nothing remembered of earlier commands, and with the brokers' request logs in
`logs/`. Entries of the journal are those of the test, whatever the page calls them.
"""

import itertools
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from blocks import Command, PageError, commands, remeasured, shown
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from lost_commits import without_a_leader
from on_lab import in_sync, wait_until_everywhere, wait_until_nowhere
from one_process import OneProcess, Said
from shared_labs import PATIENT
from shell import Shell

from kipctl.cluster.snapshot import take_snapshot
from kipctl.cluster.topics import delete_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.transport.request import Cluster

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]

TOPICS = {
    "orders": ([[1, 2], [2, 3], [3, 1]] * 2, {}),
    "payments": ([[1, 2, 3], [2, 3, 1], [3, 1, 2]], {"min.insync.replicas": "2"}),
}
"""The replicas of each partition, and the settings."""

WITH_CLIENTS = {
    "clients-ready-for-kip-951.md",
    "fleet-request-logs.md",
    "who-sends-metadata.md",
}
"""Pages about clients of others: two of librdkafka's, `shop` and `dashboard`, are at work."""

WITH_LOST_COMMITS = {"unclean-election-with-transactions.md"}
"""`carts-0` and `ledger-0` have no leader: of the first a transaction is open, of the second a
commit is lost.

They have names of their own: of a topic that was deleted, and made anew under its name, a broker
that restarts takes the settings of before (seen of min.insync.replicas with Kafka 4.3.1)."""

REMEASURE = "KIPCTL_REMEASURE_PAGES"
"""Set: the figures of each page are replaced by those of this run, which is on a quiet machine."""
ENTRY = re.compile(r"\d{8}T\d{6}\.\d+Z")
pytestmark = pytest.mark.kafka


def needs_spark(command: Command) -> bool:
    words = command.words[1:]
    return words[:1] in (["analyze"], ["report"]) or words[:2] == ["runs", "compare"]


def pages() -> Iterator[object]:
    for page in PAGES:
        if page_commands := commands(page.read_text()):
            marks = [pytest.mark.spark] if any(map(needs_spark, page_commands)) else []
            yield pytest.param(page, id=str(page.relative_to(REPOSITORY)), marks=marks)


@pytest.fixture(scope="module")
def lab(guard: None) -> Iterator[Lab]:
    """Of its own: what pages show of brokers is of their topics alone."""
    spec = LabSpec(name="default", c1_only=True, log_dirs=2, config=PATIENT)
    lab = Lab.up(spec, lambda text: None)
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands are typed."""
    return tmp_path_factory.mktemp("typed")


@pytest.fixture(scope="module")
def printed_once() -> dict[str, Said]:
    """See `ONCE`."""
    return {}


@pytest.fixture(scope="session")
def has_jvm(kipctl_again: OneProcess, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The JVM writes its log into the state folder of the first command: not into a page's."""
    (empty := tmp_path_factory.mktemp("begun") / "empty.log").touch()
    said = kipctl_again("analyze", "request-log", empty)
    assert "holds no request lines" in said.err


def make_topics(lab: Lab, cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    new = [
        NewTopic(name, len(replicas), replica_assignment=replicas, config=config)
        for name, (replicas, config) in TOPICS.items()
    ]
    for made in admin.create_topics(new).values():
        made.result()
    for name in TOPICS:
        wait_until_everywhere(cluster, name, in_sync)


@pytest.fixture
def topics(lab: Lab, page: Path) -> Iterator[None]:
    with Cluster(lab.bootstrap_server, timeout_s=10.0) as cluster:
        try:
            if page.name in WITH_LOST_COMMITS:
                without_a_leader(lab, cluster, "carts", "ledger")
            else:
                make_topics(lab, cluster)
            yield
        finally:
            lab.start(*(node.id for node in lab.nodes))  # what the page has left stopped
        # A broker may still show a topic that a page has deleted: that one is no error.
        left = list(take_snapshot(cluster).topics)
        delete_topics(lab.bootstrap_server, left)
        wait_until_nowhere(cluster, left)


@pytest.fixture
def shell(
    lab: Lab,
    topics: None,
    kipctl_again: OneProcess,
    folder: Path,
    printed_once: dict[str, Said],
    state_home: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Shell]:
    """With the lab, and nothing else, of the state folder; request logs are empty."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("has_jvm")
    (tmp_path / "kipctl").mkdir()
    (tmp_path / "kipctl" / "labs").symlink_to(state_home / "kipctl" / "labs")
    (folder / "logs").mkdir(exist_ok=True)
    for node in lab.nodes:
        log = folder / "logs" / f"{node.spec.label}.log"
        log.unlink(missing_ok=True)
        log.symlink_to(node.request_log_path)
        log.write_text("")
    variables = {
        "XDG_STATE_HOME": str(tmp_path),
        "KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server,
    }
    names = {"/var/lib/kafka": str(lab.node(1).log_dirs[0].parent)}
    shortens = REMEASURE not in os.environ
    shell = Shell(kipctl_again, variables, folder, names, shortens, printed_once)
    yield shell
    shell.close()


@contextmanager
def at_work(bootstrap_server: str) -> Iterator[None]:
    """`shop` writes 50 records a second, `dashboard` asks for all topics twice a second."""
    is_over = threading.Event()
    settings = {"bootstrap.servers": bootstrap_server, "log_level": 0}

    def work() -> None:
        shop = Producer({**settings, "client.id": "shop"})
        dashboard = AdminClient({**settings, "client.id": "dashboard"})
        for turn in itertools.count():
            shop.produce("orders", b"an order", key=os.urandom(4))
            shop.poll(0)
            if turn % 25 == 0:
                dashboard.list_topics()
            if is_over.wait(0.02):
                break
        shop.flush()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.fixture
def others(lab: Lab, topics: None, page: Path) -> Iterator[None]:
    with at_work(lab.bootstrap_server) if page.name in WITH_CLIENTS else nullcontext():
        yield


@pytest.mark.parametrize("page", list(pages()))
def test_a_page_shows_what_its_commands_print(page: Path, shell: Shell, others: None) -> None:
    entries: dict[str, str] = {}
    text = page.read_text()
    page_commands = commands(text)
    for command, following in zip(page_commands, [*page_commands[1:], None], strict=True):
        for said, real in entries.items():
            command = Command(command.line, command.typed.replace(said, real), command.shown)
        out, err = shell(command.typed)
        where = f"{page.name}, line {command.line}: {command.typed}"
        if "echo $?" not in (command.typed, following and following.typed):
            assert shell.status == 0, f"{where}\n{out}{err}"
        pairs = on_page(command, out, err, where)
        text = remeasured(text, command, pairs)
        for pair in pairs:
            entries.update(zip(*map(ENTRY.findall, reversed(pair)), strict=False))
    if REMEASURE in os.environ:
        page.write_text(text)


def on_page(command: Command, out: str, err: str, where: str) -> list[tuple[str, str]]:
    """Each line beside that of the page, which shows stdout, and may show what stderr had too."""
    # Which cluster it was is told last where it has been asked; pages leave that out.
    printed = [line for line in out.splitlines() if not line.startswith("Cluster: ")]
    try:
        return shown(printed, command.shown, command.is_measuring)
    except PageError:
        try:
            return shown([*printed, *err.splitlines()], command.shown, command.is_measuring)
        except PageError as lie:
            pytest.fail(f"{where}\n{lie}\nprinted:\n{out}{err}", pytrace=False)
