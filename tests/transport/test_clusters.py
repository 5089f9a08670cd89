"""Clusters by name, and how they are reached."""

import io
import multiprocessing
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.errors import RefusedError, UsageError
from kipctl.protocol.address import Address
from kipctl.transport.access import Access, access_of, parse_map
from kipctl.transport.clusters import (
    NamedCluster,
    add_cluster,
    clusters_file,
    named_clusters,
    remove_cluster,
)

FULL = NamedCluster(
    "prod.eu-1",
    "kafka1:9092,kafka2:9092",
    "/etc/kafka/client.properties",
    "eu-1a",
    ("http://kafka1:9404/metrics",),
    True,
    "cluster-id",
    (("kafka1:9092", "127.0.0.1:19092"),),
)


@pytest.mark.parametrize("entry", [FULL, NamedCluster("lab", "127.0.0.1:9092")])
def test_what_is_added_is_read_as_it_was(entry: NamedCluster, tmp_path: Path) -> None:
    file = clusters_file({"XDG_CONFIG_HOME": str(tmp_path)})
    assert named_clusters(file) == {}
    add_cluster(file, NamedCluster('odd "name"', "h:1"))
    add_cluster(file, entry)
    assert list(named_clusters(file)) == ['odd "name"', entry.name]
    assert named_clusters(file)[entry.name] == entry
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with pytest.raises(UsageError, match="has a cluster"):
        add_cluster(file, entry)


@pytest.mark.parametrize("entry", [FULL, NamedCluster('odd "name"', "h:1", map=(("a:1", "b:1"),))])
def test_what_is_removed_leaves_all_else_as_it_was(entry: NamedCluster, tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    before, after = '# Mine.\n[a]\nbootstrap_servers="a:1" # kept\n', '\n[z.map]\n"a:1"="b:1"\n'
    after = '[z]\nbootstrap_servers = "z:1"\n' + after
    file.write_text(before)
    add_cluster(file, entry)
    file.write_text(file.read_text() + after)
    remove_cluster(file, entry.name)
    assert file.read_text().replace("\n\n", "\n") == (before + after).replace("\n\n", "\n")


@pytest.mark.parametrize(
    ("below", "left"),
    [
        ("# West.\n[west]\n", "# West.\n[west]\n"),
        ("\n# West,\n\n# of Bob.\n[west]\n", "# West,\n\n# of Bob.\n[west]\n"),
        ("# Its rack.\nrack = 'r'\n[west]\n", "[west]\n"),
        ("# Its map.\n[east.map]\n'h:1' = 'i:1'\n# West.\n[west]\n", "# West.\n[west]\n"),
    ],
)
def test_a_comment_above_the_next_entry_stays_with_it(
    below: str, left: str, tmp_path: Path
) -> None:
    file, of_it = tmp_path / "clusters.toml", 'bootstrap_servers = "h:1"\n'
    file.write_text(f"# All.\n[east]\n{of_it}{below}{of_it}# The end.\n")
    remove_cluster(file, "east")
    assert file.read_text() == f"# All.\n{left}{of_it}# The end.\n"
    remove_cluster(file, "west")
    assert file.read_text().endswith("# The end.\n")


@pytest.mark.parametrize(
    "text", ['a = {bootstrap_servers = "a:1"}\n', 'a.bootstrap_servers = "a:1"\n']
)
def test_an_entry_without_a_header_is_left_to_who_wrote_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match="not below a header"):
        remove_cluster(file, "a")
    assert file.read_text() == text


def test_a_cluster_is_removed_by_command(tmp_path: Path) -> None:
    environment = Environment(
        io.StringIO(), io.StringIO(), io.StringIO(), {"XDG_CONFIG_HOME": str(tmp_path)}
    )
    assert run(["clusters", "add", "a", "--bootstrap-server", "a:1"], environment) == 0
    assert run(["clusters", "remove", "a"], environment) == 2  # nobody to ask
    assert run(["clusters", "remove", "b", "--yes"], environment) == 2
    assert run(["clusters", "remove", "a", "--yes"], environment) == 0
    assert named_clusters(clusters_file(environment.variables)) == {}


@pytest.mark.parametrize("text", ["x😀", '\x7f\t\n"\\', "é.[a]#='"])
def test_whatever_is_written_can_be_read_again(text: str, tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    entry = NamedCluster(text, text, text, text, (text,), False, text, ((text, text),))
    add_cluster(file, entry)
    assert named_clusters(file) == {text: entry}


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    add_cluster(file, NamedCluster("a", "a:1"))
    before = file.read_bytes()
    with pytest.raises(UsageError, match=r"clusters\.toml cannot be written"):
        add_cluster(file, NamedCluster(os.fsdecode(b"\xff"), "b:1"))
    assert file.read_bytes() == before


def _add_when_all_are_there(file: Path, name: str, start: Any) -> None:
    for number in range(5):
        start.wait(60)  # one that has failed does not come
        add_cluster(file, NamedCluster(f"{name}-{number}", "a:1", protected=True))


def test_all_that_is_added_at_once_is_kept(tmp_path: Path) -> None:
    file, context = tmp_path / "clusters.toml", multiprocessing.get_context("spawn")
    start = context.Barrier(4)
    adding = [
        context.Process(target=_add_when_all_are_there, args=(file, name, start)) for name in "abcd"
    ]
    for process in adding:
        process.start()
    for process in adding:
        process.join()
    assert [process.exitcode for process in adding] == [0] * 4
    assert len(named_clusters(file)) == 20


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    target, file = tmp_path / "dotfiles.toml", tmp_path / "kipctl" / "clusters.toml"
    target.write_text('[a]\nbootstrap_servers = "a:1"\n')
    file.parent.mkdir()
    file.symlink_to(target)
    add_cluster(file, NamedCluster("b", "b:1"))
    assert file.readlink() == target
    assert list(named_clusters(target)) == ["a", "b"]


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole or not there after a power cut: it was synchronised, and then its folder."""
    file, synced = tmp_path / "clusters.toml", []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    add_cluster(file, NamedCluster("a", "a:1"))
    assert synced == [file.stat().st_ino, tmp_path.stat().st_ino]


def test_a_protected_name_without_an_id_is_said_to_guard_the_name_alone(tmp_path: Path) -> None:
    def said(*options: str) -> str:
        err = io.StringIO()
        variables = {"XDG_CONFIG_HOME": str(tmp_path)}
        words = ["clusters", "add", f"c{len(options)}", "--bootstrap-server", "a:1", *options]
        assert run(words, Environment(io.StringIO(), io.StringIO(), err, variables)) == 0
        return err.getvalue()

    told = "guards the name alone"
    assert told in said("--protected")
    assert told not in said("--protected", "--expect-cluster", "id")
    assert told not in said()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[prod", "cannot be read"),
        ("a = " + "[" * 100_000, "cannot be read"),
        ("a = " + "9" * 5000, "cannot be read"),
        ("prod = 1", "prod is no table"),
        ("[prod]\n", "has no bootstrap_servers"),
        ('[prod]\nbootstrap_servers = ["a:1"]', "bootstrap_servers of .prod. is wrong"),
        ('[prod]\nbootstrap_servers = "a:1"\npasword = "x"', "pasword of .prod. is wrong"),
    ],
)
def test_a_file_that_is_wrong_says_where(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=told):
        named_clusters(file)


def test_what_somebody_wrote_in_the_file_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text('# ours\n[a]\nbootstrap_servers = "a:1" # old\n')
    add_cluster(file, NamedCluster("b", "b:1"))
    assert file.read_text().startswith('# ours\n[a]\nbootstrap_servers = "a:1" # old\n')
    assert list(named_clusters(file)) == ["a", "b"]


def test_a_named_cluster_and_options_become_one_access() -> None:
    access = access_of("kafka1:9092", {}, parse_map(["kafka2:9092=[::1]:2"]), FULL)
    assert access.mapped(Address("kafka1", 9092)) == Address("127.0.0.1", 19092)
    assert access.mapped(Address("kafka2", 9092)) == Address("::1", 2)
    assert access.mapped(Address("kafka3", 9092)) == Address("kafka3", 9092)
    assert (access.name, access.expected_id, access.is_protected) == (
        "prod.eu-1",
        "cluster-id",
        True,
    )
    assert access_of("a:1", {}, None, FULL, "other").expected_id == "other"


def test_a_cluster_of_another_id_is_refused() -> None:
    access = Access("a:1", expected_id="right")
    access.identify("right")
    with pytest.raises(RefusedError, match="is wrong, not right"):
        access.identify("wrong")


def test_an_id_of_clusters_toml_is_said_to_be_from_there() -> None:
    for given, origin in (("", "clusters.toml"), ("another", "--expect-cluster")):
        access = access_of("a:1", {}, None, FULL, given)
        with pytest.raises(RefusedError) as raised:
            access.identify("wrong")
        assert origin in raised.value.next_step
        assert ("--expect-cluster" in raised.value.next_step) == bool(given)


def test_behind_a_tap_tls_is_the_taps_and_the_login_the_clients() -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x required username="alice" password="secret";',
        "ssl.endpoint.identification.algorithm": "",
        "client.id": "of no concern",
    }
    behind = access_of("kafka1:9093", properties, parse_map(["kafka1:9093=a:1"])).behind("tap:1")
    assert (behind.bootstrap_servers, behind.security.protocol) == ("tap:1", "SASL_PLAINTEXT")
    assert behind.security.principal == "User:alice"
    assert behind.address_map == {}
    assert behind.properties == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": properties["sasl.jaas.config"],
    }
    assert "secret" not in repr(behind)
    assert pickle.loads(pickle.dumps(behind)) == behind


@pytest.mark.parametrize(
    ("by_name", "ids", "expected_id", "is_refused"),
    [
        (True, {"a"}, "", True),
        (True, {"a"}, "a", False),
        (False, {"prod"}, "", True),  # the protected one, reached by its address
        (False, {"prod"}, "prod", False),
        (False, {"other"}, "", False),
    ],
)
def test_a_protected_cluster_is_changed_with_consent_only(
    by_name: bool, ids: set[str], expected_id: str, is_refused: bool
) -> None:
    named = NamedCluster("x", "a:1", protected=by_name)
    access = access_of("a:1", {}, None, named, expected_id, protected_ids=["prod"])
    for cluster_id in ids:
        access.identify(cluster_id)
    if is_refused:
        with pytest.raises(RefusedError, match="is protected: CreateTopics is refused"):
            access.require_consent("CreateTopics")
        access.consent.add("answered")
    access.require_consent("CreateTopics")
