"""Request logs on Spark: lines, and what docker, Kubernetes and shippers put around them."""

import gzip
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import cramjam
import msgspec
from fuzzing import Reader
from mutations import bytes_changed, text_changed
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from request_log_lines import log_lines
from test_envelopes import OLD, WRAPPED, sample

from kipctl.pipeline.failures import failure_of
from kipctl.pipeline.period import parse_period
from kipctl.pipeline.request_log import analyse, read_request_log
from kipctl.pipeline.request_log.pack import FORMAT, PackedFile, files_of
from kipctl.pipeline.session import spark_session

_FILE = b"\0file "
"""Begins a file in an input, which has several: Spark takes seconds for one as for ten."""
_FILES = 3
_UNREADABLE = "cannot be read"


def _files() -> dict[str, bytes]:
    """A log in each envelope, packed ones too, and logs as brokers write them."""
    lines = sample()
    made = {name: wrap(lines) for name, wrap in WRAPPED.items()} | {
        name: log_lines(name)[::40] for name in ("kafka-4.3.1", "kafka-3.6.2", "transactions-4.3.1")
    }
    made["plain"] = made["plain again"] = lines
    made["old"] = [OLD, *lines[:3]]
    whole = {name: "".join(f"{line}\n" for line in made[name]).encode() for name in made}
    whole["packed.gz"] = gzip.compress(whole["docker"])
    whole["packed.zst"] = bytes(cramjam.zstd.compress(whole["cri"]))
    return whole


@contextmanager
def packs(_: Path) -> Iterator[Mapping[str, Reader]]:
    """What says which files are in a pack."""
    file = PackedFile("file:///logs/a%20b", 2000, 1, "UTC", "b", "file:///logs/a", 9, None)
    sound = msgspec.json.encode({"files": [file, file], "format": FORMAT})

    def read(content: bytes) -> None:
        files_of(content.decode(errors="replace"), "packed/_pack.1.json")

    yield {"files": Reader([sound], read, text_changed)}


def readers_of_logs(spark: SparkSession, folder: Path) -> dict[str, Reader]:
    """Of all there is in a log, by time, and of a part of it."""
    whole = _files()

    def changed(_: bytes, choose: Random) -> bytes:
        some = choose.sample(sorted(whole), _FILES)
        return b"".join(
            b"%b%b\n%b" % (_FILE, name.encode(), _changed(name, whole[name], choose))
            for name in some
        )

    def written(content: bytes) -> str:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, file in enumerate(content.split(_FILE)[1:]):
            name, _, held = file.partition(b"\n")
            ending = name[-4:].decode(errors="replace").partition(".")[2]
            (folder / f"{number}.log{f'.{ending}' if ending in ('gz', 'zst') else ''}").write_bytes(
                held
            )
        return str(folder)

    def read(content: bytes, *, by_time: bool = False, since: str | None = None) -> None:
        try:
            period = parse_period(since, None)
            analyse(read_request_log(spark, [written(content)], period=period, by_time=by_time))
        except (PySparkException, Py4JError) as failed:
            error = failure_of(failed, folder, has_ended=False)
            if _UNREADABLE in error.what:
                raise error from None
            raise

    return {
        "whole logs": Reader([b""], read, changed, memory=0),
        "logs by time": Reader(
            [b""], lambda content: read(content, by_time=True), changed, memory=0
        ),
        "the end of logs": Reader(
            [b""], lambda content: read(content, since="2026-11-21T11:13:09"), changed, memory=0
        ),
    }


def _changed(name: str, content: bytes, choose: Random) -> bytes:
    """Several lines of a file are others; one file of four is as it was."""
    if not choose.randrange(4):
        return content
    if name.startswith("packed"):
        return bytes_changed(content, choose)
    lines = content.splitlines(keepends=True)
    for _ in range(choose.choice([1, 3, 10, 30])):
        at = choose.randrange(len(lines))
        lines[at] = text_changed(lines[at], choose)
    return b"".join(lines)


@contextmanager
def logs(folder: Path) -> Iterator[Mapping[str, Reader]]:
    """With a Spark of its own."""
    with spark_session("local[2]") as spark:
        yield readers_of_logs(spark, folder / "logs")
