"""Following request logs that are still written: in the end what an analysis of the files says."""

import gzip
import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from request_log_lines import LOGS, analysed_log, log_files
from test_interrupts import started

from kipctl.documents.analysis import RequestLogAnalysis
from kipctl.errors import ExitStatus, PipelineError, UsageError
from kipctl.pipeline.period import parse_period
from kipctl.pipeline.request_log import analyse, follow, read_request_log
from kipctl.pipeline.request_log.files import Timezones
from kipctl.pipeline.request_log.follow import Following, Look, following

pytestmark = pytest.mark.spark
TEXTS = {
    path.name.removesuffix(".gz"): gzip.decompress(path.read_bytes()) for path in log_files(LOGS[0])
}
BROKEN = b'[2026-01-31 12:00:00,000] DEBUG Completed request:{"isForwarded":false\n'


def looks_at(
    log: Following, steps: Sequence[Callable[[], object]], lines: int
) -> list[RequestLogAnalysis]:
    """The document of each look; after each the next step is done, and it ends with so many lines
    that were read."""
    seen: list[RequestLogAnalysis] = []
    left = [*steps]

    def tell(look: Look) -> None:
        assert look.document is not None
        seen.append(look.document)
        if left:
            left.pop(0)()

    def has_ended(seconds: float) -> bool:
        threading.Event().wait(seconds)
        return bool(seen) and not left and seen[-1]["lines"]["read"] == lines

    log.until(has_ended, tell)
    return seen


def cut(text: bytes) -> int:
    """Where a line ends about the middle of the text."""
    return text.rindex(b"\n", 0, len(text) // 2) + 1


def test_lines_that_are_added_are_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    """Over half lines, a file that gets another name, one that is packed, and one that is new."""
    renamed, packed, *_ = TEXTS
    for name, text in TEXTS.items():
        (tmp_path / name).write_bytes(text[: len(text) // 3])

    def rotate() -> None:
        for name in (renamed, packed):
            log, at = tmp_path / name, cut(TEXTS[name])
            log.write_bytes(TEXTS[name][:at] + BROKEN)
            log.rename(tmp_path / f"{name}.1")
            log.write_bytes(TEXTS[name][at:-100])
        older = tmp_path / f"{packed}.1"
        Path(f"{older}.gz").write_bytes(gzip.compress(older.read_bytes()))
        older.unlink()

    def end() -> None:
        for name, text in TEXTS.items():
            at = cut(text) if name in (renamed, packed) else 0
            (tmp_path / name).write_bytes(text[at:])

    lines = sum(text.count(b"\n") for text in TEXTS.values())
    with following(spark, [str(tmp_path)]) as log:
        looks = looks_at(log, [rotate, end], lines + 2)
        document = log.document()
    read = [look["lines"]["read"] for look in looks]
    assert len(read) >= 3
    assert read == sorted({*read})
    assert document == analyse(read_request_log(spark, [str(tmp_path)]))
    files = [line["file"].removeprefix(f"{tmp_path}/") for line in document["broken_lines"]]
    assert files == [f"{renamed}.1", f"{packed}.1.gz"]
    whole = analysed_log(spark, LOGS[0]).document
    assert document["lines"]["parsed"] == whole["lines"]["parsed"] == lines


def cri(text: bytes) -> bytes:
    """The lines as containerd writes them, the long ones in pieces."""
    written = []
    for line in text.decode().splitlines():
        *pieces, last = [line[at : at + 1_000] for at in range(0, len(line), 1_000)]
        stamps = [*("P" for _ in pieces), "F"]
        written += [
            f"2026-01-31T12:00:00.000000000Z stdout {stamp} {piece}\n"
            for stamp, piece in zip(stamps, (*pieces, last), strict=True)
        ]
    return "".join(written).encode()


def test_lines_in_pieces_are_put_together_over_two_looks(
    spark: SparkSession, tmp_path: Path
) -> None:
    long = max(TEXTS.values(), key=lambda text: max(map(len, text.splitlines())))
    text, log = cri(long), tmp_path / "0.log"
    at = text.index(b"\n", text.index(b" stdout P ", len(text) // 2)) + 1
    log.write_bytes(text[:at])

    def end() -> None:
        log.write_bytes(text)

    with following(spark, [str(log)]) as followed:
        looks_at(followed, [end], long.count(b"\n"))
        document = followed.document()
    assert document["lines"]["broken"] == 0
    assert document == analyse(read_request_log(spark, [str(log)]))


def test_of_a_period_and_a_zone(spark: SparkSession, tmp_path: Path) -> None:
    """A file of a path has the zone of that path, whatever it is called."""
    (tmp_path / "a").mkdir()
    log = tmp_path / "a" / "request.log"
    lines = next(iter(TEXTS.values()))
    log.write_bytes(lines[: cut(lines)])
    times = lines.decode().splitlines()
    first = times[len(times) // 4][1:20]
    since = f"{first.replace(' ', 'T')}-02:00"
    zones, period = Timezones("UTC", ((str(log), "-02:00"),)), parse_period(since, None)

    def rotate() -> None:
        log.rename(tmp_path / "a" / "request.log.1")
        log.write_bytes(lines[cut(lines) :])

    with following(spark, [str(tmp_path)], timezones=zones, period=period) as followed:
        looks = looks_at(followed, [rotate], sum(line[1:20] >= first for line in times))
        document = followed.document()
    assert len(looks) >= 2
    everywhere = Timezones("-02:00")
    assert document == analyse(read_request_log(spark, [str(tmp_path)], everywhere, period))


def test_rows_of_many_batches_are_put_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_MOST_FOLDERS", 1)
    text, log = next(iter(TEXTS.values())), tmp_path / "request.log"
    lines = text.splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:50]))
    steps = [lambda n=n: log.write_bytes(b"".join(lines[:n])) for n in (100, 150)]
    with following(spark, [str(log)]) as followed:
        looks = looks_at(followed, steps, 150)
        assert len(list(followed.folder.iterdir())) <= 2
        document = followed.document()
    assert [look["lines"]["read"] for look in looks] == [50, 100, 150]
    assert document == analyse(read_request_log(spark, [str(log)]))


def test_what_was_read_is_told_though_reading_failed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lines = tmp_path / "request.log", next(iter(TEXTS.values())).splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:50]))
    looks: list[Look] = []

    def tell(look: Look) -> None:
        looks.append(look)
        monkeypatch.setattr(follow, "read_text", lambda *args: {}["the disk"])
        log.write_bytes(b"".join(lines[:100]))

    with following(spark, [str(log)]) as followed:
        failed = followed.until(lambda _: False, tell)
        document = followed.document()
    assert isinstance(failed, PipelineError)
    assert "the disk" in failed.what
    assert len(looks) == 1
    assert document["lines"]["read"] == 50


def test_lines_without_requests_are_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "request.log").write_text("started\n" * 3)
    looks: list[Look] = []
    with following(spark, [str(tmp_path)]) as followed:
        followed.until(lambda _: bool(looks), looks.append)
    assert [(look.document, look.lines) for look in looks] == [(None, 3)]


def test_what_cannot_be_followed(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "request.log"
    with following(spark, [str(tmp_path)]) as followed:
        followed.until(lambda _: True, lambda _: None)
        with pytest.raises(UsageError, match="holds no files"):
            followed.document()
    log.write_text("started\n")
    with following(spark, [str(log)]) as followed:
        followed.until(lambda _: followed.batches > 0, lambda _: None)
        with pytest.raises(PipelineError, match=r"no request lines \(1 other lines"):
            followed.document()
    line = next(iter(TEXTS.values())).decode().splitlines()[0]
    log.write_text(json.dumps([{"message": line}] * 2, indent=2) + "\n")
    with (
        following(spark, [str(log)]) as followed,
        pytest.raises(UsageError, match="over several lines"),
    ):
        followed.until(lambda _: False, lambda _: None)


def test_ctrl_c_ends_it_with_what_was_read(tmp_path: Path) -> None:
    """As the command: what is new as it comes, and the document at the end."""
    log = tmp_path / "request.log"
    text = next(iter(TEXTS.values()))
    lines = text.count(b"\n")
    log.write_bytes(text[: cut(text)])
    asked = ("analyze", "request-log", str(log), "--follow", "--output", "json")
    with started(tmp_path, "-m", "kipctl", *asked) as process:
        assert process.stderr is not None
        assert any("in all" in line for line in process.stderr)
        log.write_bytes(text)
        assert any(f"{lines:,} in all" in line for line in process.stderr)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=600)
    assert process.returncode == ExitStatus.DONE
    document = json.loads(out)
    assert document["lines"]["parsed"] == lines
    assert document["clusters"]
