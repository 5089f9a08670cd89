"""Files that are named in several ways, and are one."""

from pathlib import Path

import pytest

from kipctl.pipeline.files import each_once, folder_in


def placed(tmp_path: Path, *roots: str) -> list[str]:
    """What is read of these roots, as paths below the folder."""
    places = each_once([f"file:{tmp_path}/{root}".rstrip("/") for root in roots])
    return [place.removeprefix(f"file:{tmp_path}/") for place in places]


def test_a_file_is_read_once_whatever_links_lead_to_it(tmp_path: Path) -> None:
    (tmp_path / "plain" / "deep").mkdir(parents=True)
    (tmp_path / "linked" / "_hidden").mkdir(parents=True)
    for name in ("plain/deep/a.log", "linked/request.log", "linked/_hidden/b.log", "linked/.c"):
        (tmp_path / name).touch()
    assert placed(tmp_path, "plain") == ["plain"]
    assert placed(tmp_path, "plain", "plain/deep", "plain/deep/a.log") == ["plain"]

    (tmp_path / "linked" / "current.log").symlink_to("request.log")
    (tmp_path / "linked" / "gone.log").symlink_to("nothing.log")
    (tmp_path / "linked" / "loop.log").symlink_to("loop.log")
    (tmp_path / "linked" / "itself").symlink_to(tmp_path / "linked")
    for roots in (["linked"], ["linked/current.log", "linked/request.log"], ["linked/current.log"]):
        assert placed(tmp_path, *roots) == ["linked/request.log"]

    # A folder that is read as a whole holds no file that a link has led to before.
    (tmp_path / "linked" / "other.log").symlink_to("../plain/deep/a.log")
    assert placed(tmp_path, "linked", "plain") == ["linked/request.log", "plain/deep/a.log"]

    # The name tells how a file is packed.
    (tmp_path / "linked" / "packed.gz").symlink_to("_hidden/b.log")
    assert placed(tmp_path, "linked/packed.gz") == ["linked/packed.gz"]


def test_containers_logs_as_kubernetes_has_them(tmp_path: Path) -> None:
    stored = tmp_path / "docker" / "0.log"
    for folder in ("docker", "pods/broker", "containers"):
        (tmp_path / folder).mkdir(parents=True)
    stored.touch()
    (tmp_path / "pods" / "broker" / "0.log").symlink_to(stored)
    (tmp_path / "containers" / "broker.log").symlink_to(tmp_path / "pods" / "broker" / "0.log")
    assert placed(tmp_path, "pods", "containers") == ["docker/0.log"]
    assert placed(tmp_path, "") == ["docker/0.log"]


def test_other_file_systems_are_left_as_they_are() -> None:
    roots = ["hdfs://store/logs/", "hdfs://store/logs/a.log", "s3a://logs/b.log"]
    assert each_once(roots) == ["hdfs://store/logs", "s3a://logs/b.log"]


@pytest.mark.parametrize(
    ("file", "folder", "uri"),
    [
        ("hdfs://nn/runs/a/batches/p.parquet", "hdfs://nn/runs/a", "hdfs://nn/runs/a"),
        ("hdfs://nn/nn/run.json", "hdfs://nn/nn", "hdfs://nn/nn"),
        ("s3a://b/d=1,2/a%20b/x", "s3a://b/d=1,2/a b", "s3a://b/d=1,2/a%20b"),
        ("file:///srv/j%C3%BCrg/run/x", "file:/srv/jürg/run/", "file:///srv/j%C3%BCrg/run"),
        ("hdfs://nn/user/me/runs/a/x", "runs/a", "hdfs://nn/user/me/runs/a"),
        ("hdfs://nn/other/x", "hdfs://nn/runs", None),
    ],
)
def test_the_uri_of_a_folder_is_that_of_its_files(file: str, folder: str, uri: str | None) -> None:
    assert folder_in(file, folder) == uri
