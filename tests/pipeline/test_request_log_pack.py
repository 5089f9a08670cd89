"""Packs of request logs: what they tell is what the text tells, and no file is read twice."""

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from request_log_lines import LOGS, analysed_log, log_files, log_lines

from kipctl.errors import KipctlError, PipelineError, UsageError
from kipctl.pipeline.period import ALWAYS, Period, parse_period
from kipctl.pipeline.request_log import RequestLog, analyse, packing, read_request_log
from kipctl.pipeline.request_log.files import UTC_EVERYWHERE, Timezones
from kipctl.pipeline.request_log.over_time import over_time
from kipctl.pipeline.request_log.pack import SLICE_US, Pack
from kipctl.pipeline.request_log.packing import pack

pytestmark = pytest.mark.spark


def read(
    spark: SparkSession, *paths: Path, period: Period = ALWAYS, by_time: bool = False
) -> RequestLog:
    return read_request_log(spark, [*map(str, paths)], period=period, by_time=by_time)


def counts(log: RequestLog) -> Any:
    """What is known of a log before any table is made."""
    known = (log.lines, log.copies, log.envelopes, log.untimed, log.broken, log.nodes, log.seen)
    return (*known, log.places, log.logged, log.refused_slots, log.turns)


def moment(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat()


@pytest.mark.parametrize("name", LOGS)
def test_a_pack_tells_what_the_text_tells(spark: SparkSession, tmp_path: Path, name: str) -> None:
    files, to = log_files(name), tmp_path / "packed"
    said = pack(spark, [*map(str, files)], str(to))
    assert (said["files_packed"], said["lines_packed"]) == (len(files), len(log_lines(name)))
    assert analyse(read(spark, to)) == analysed_log(spark, name).document
    folders = {path.name for path in to.glob("_rows/batch=*/day=2026-*/log=*")}
    assert folders >= {"log=broker-1", "log=broker-2", "log=broker-3", "log=controller-101.log.gz"}


def test_of_whole_slices_too(spark: SparkSession, tmp_path: Path) -> None:
    files, to = log_files(LOGS[0]), tmp_path / "packed"
    pack(spark, [*map(str, files)], str(to))
    spans = [(seen.first_us, seen.last_us) for seen in analysed_log(spark, LOGS[0]).log.seen]
    first, last = min(spans)[0], max(end for _, end in spans)
    third = (last - first) // 3
    since, before = (moment((first + n * third) // SLICE_US * SLICE_US) for n in (1, 2))
    for period in (parse_period(since, None), parse_period(None, before)):
        assert counts(read(spark, to, period=period)) == counts(read(spark, *files, period=period))
    within = parse_period(since, before)
    packed, text = read(spark, to, period=within), read(spark, *files, period=within)
    assert 0 < text.lines["parsed"] < len(log_lines(LOGS[0]))
    assert counts(packed) == counts(text)
    assert analyse(packed) == analyse(text)
    with pytest.raises(UsageError, match="lies between two times"):
        read(spark, to, period=parse_period("2026-01-31T12:00:01", None))
    with pytest.raises(UsageError, match="in the period"):
        read(spark, to, period=parse_period("2037-01-01T00:00", None))


def test_over_time_too(spark: SparkSession, tmp_path: Path) -> None:
    """Of a log that is long enough for steps of whole slices."""
    log, to = tmp_path / "request.log", tmp_path / "packed"
    lines = log_lines(LOGS[0])[:200]
    later = [f"[{line[1:11]} 23:{line[15:]}" for line in lines]
    log.write_text("".join(f"{line}\n" for line in (*lines, *later)))
    pack(spark, [str(log)], str(to))
    packed, text = read(spark, to, by_time=True), read(spark, log, by_time=True)
    assert packed.slice_us == text.slice_us > SLICE_US
    assert over_time(packed) == over_time(text)


def test_packs_beside_text(spark: SparkSession, tmp_path: Path) -> None:
    """A file that is in both is taken once."""
    files, to = log_files(LOGS[0]), tmp_path / "packed"
    pack(spark, [*map(str, files[:2])], str(to))
    assert counts(read(spark, to, *files[1:])) == counts(analysed_log(spark, LOGS[0]).log)


STRANGE = [
    "[2026-01-31 12:00:00,000] INFO started",
    "no time",
    "Completed request:{",
    "[2026-01-31 12:00:01,000] DEBUG Completed request:{broken",
]


def test_of_any_lines(spark: SparkSession, tmp_path: Path) -> None:
    """Broken ones have their numbers, envelopes their names, in a pack as in the text."""
    logs, to = tmp_path / "logs", tmp_path / "logs" / "packed"
    logs.mkdir()
    lines = log_lines(LOGS[0])[:60]
    mixed = [*lines[:30], *STRANGE, *lines[30:], STRANGE[3]]
    wrapped = [json.dumps({"log": f"{line}\n", "stream": "stdout"}) for line in mixed]
    untimed = [line[26:] for line in lines[:5]]
    for name, content in (
        ("plain", mixed),
        ("docker", wrapped),
        ("copy", lines),
        ("untimed", untimed),
    ):
        (logs / name).write_text("".join(f"{line}\n" for line in content))
    (logs / "copy.gz").write_bytes(gzip.compress((logs / "copy").read_bytes()))
    text = read(spark, logs, by_time=True)
    assert text.broken
    assert text.envelopes
    assert text.copies
    # In a folder of logs a pack is passed over.
    pack(spark, [str(logs)], str(to))
    assert counts(read(spark, logs)) == counts(text)
    packed = read(spark, to, by_time=True)
    assert counts(packed) == counts(text)
    assert sum(api["count"] for cluster in over_time(packed) for api in cluster["apis"]) == sum(
        api["count"] for cluster in over_time(text) for api in cluster["apis"]
    )
    first_us = min(seen.first_us for seen in text.seen if seen.first_us > 0)
    since = parse_period(moment(first_us), None)
    assert since.since is not None
    begin = parse_period(moment(since.since.us // SLICE_US * SLICE_US), None)
    assert counts(read(spark, to, period=begin)) == counts(read(spark, logs, period=begin))


def test_a_log_that_grows_and_is_rotated(spark: SparkSession, tmp_path: Path) -> None:
    """Each file is read once in each of its states, and what is gone stays."""
    logs, to = tmp_path / "logs", str(tmp_path / "packed")
    logs.mkdir()
    lines = [f"{line}\n" for line in log_lines(LOGS[0])]
    log, older = logs / "request.log", logs / "request.log.1"

    def packed() -> tuple[int, int, int, int]:
        said = pack(spark, [str(logs)], to)
        now = (said["files_packed"], said["files_renamed"], said["files_unchanged"])
        return (*now, read(spark, Path(to)).lines["read"])

    log.write_text("".join(lines[:50]))
    assert packed() == (1, 0, 0, 50)
    assert packed() == (0, 0, 1, 50)
    with log.open("a") as more:
        more.write("".join(lines[50:90]))
    assert packed() == (1, 0, 0, 90)
    os.rename(log, older)
    log.write_text("".join(lines[90:100]))
    assert packed() == (1, 1, 0, 100)
    # It has grown since it was packed, and was compressed then.
    with log.open("a") as more:
        more.write("".join(lines[100:120]))
    (logs / "request.log.2.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    assert packed() == (1, 0, 1, 120)
    older.unlink()
    assert packed() == (0, 0, 1, 120)
    assert {seen.file.rpartition("/")[2] for seen in read(spark, Path(to)).seen} == {
        "request.log.1",
        "request.log.2.gz",
    }


def test_what_is_killed_leaves_what_was_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, to = [*map(str, log_files(LOGS[0]))], str(tmp_path / "packed")
    monkeypatch.setattr(packing, "_BATCH_BYTES", 1)
    write = Pack.write
    written: list[str] = []

    def until_killed(pack: Pack, rows: DataFrame) -> str:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(write(pack, rows))
        return written[-1]

    monkeypatch.setattr(Pack, "write", until_killed)
    before = Pack.at_or_new(spark, to)
    with pytest.raises(KeyboardInterrupt):
        pack(spark, files, to)
    assert len({seen.file for seen in read(spark, Path(to)).seen}) == 2
    monkeypatch.setattr(Pack, "write", write)
    said = pack(spark, files, to)
    assert (said["files_packed"], said["files_unchanged"]) == (2, 2)
    with pytest.raises(PipelineError, match="Another kipctl packs into"):
        before.with_files(())


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    log, to = tmp_path / "request.log", tmp_path / "packed"
    log.write_text("".join(f"{line}\n" for line in log_lines(LOGS[0])[:20]))
    pack(spark, [str(log)], str(to), Timezones("Europe/Berlin"))
    assert read(spark, to).lines["parsed"] == 20

    def refusal(zones: Timezones = UTC_EVERYWHERE) -> KipctlError:
        with pytest.raises(KipctlError) as refused:
            read_request_log(spark, [str(to)], zones)
        return refused.value

    assert refusal(Timezones("UTC")).what == (
        f"--timezone UTC: {to} was packed with Europe/Berlin."
    )
    assert isinstance(refusal(Timezones("Europe/Berlin", ((str(to), "UTC"),))), UsageError)
    with pytest.raises(UsageError, match="it is there already"):
        pack(spark, [str(log)], str(tmp_path))
    [newest] = sorted(to.glob("_pack.*.json"))[-1:]
    # A kipctl that was killed, or another one at the same time.
    (to / "_rows" / "batch=left").mkdir()
    (to / "_unfinished").write_text("{")
    assert read(spark, to).lines["parsed"] == 20
    kept = newest.read_text()
    newest.write_text(kept[:-20])
    assert isinstance(refusal(), PipelineError)
    assert "is damaged: Input data was truncated" in refusal().what
    newest.write_text(kept.replace('"format":1', '"format":2'))
    assert refusal().what == f"{newest} is of a pack of format 2, and this kipctl reads format 1."


def test_what_an_analysis_may_still_read_by_stays_for_a_day(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, to = tmp_path / "request.log", tmp_path / "packed"
    lines = [f"{line}\n" for line in log_lines(LOGS[0])[:40]]

    def packed(number: int) -> Pack:
        log.write_text("".join(lines[:number]))
        pack(spark, [str(log)], str(to))
        now = Pack.at(spark, f"file:{to}")
        assert now
        return now

    def age(*paths: Path) -> None:
        for path in paths:
            two_days_ago = path.stat().st_mtime - 2 * 24 * 3600
            os.utime(path, (two_days_ago, two_days_ago))

    def batches() -> set[str]:
        return {path.name for path in to.glob("_rows/batch=*")}

    first = packed(10)
    age(*to.glob("_pack.*.json"), *to.glob("_rows/*"))
    # What it was before is two days old, and was what it is until now.
    before, latest = first.rows(), packed(20)
    assert before.count() > 0
    assert (to / f"_pack.{first.number}.json").exists()
    assert len(batches()) == 2
    age(*to.glob("_pack.*.json"), *to.glob("_rows/*"))
    newest = packed(30)
    assert {f"batch={file.batch}" for file in (*latest.files, *newest.files)} == batches()
    names = {f"_pack.{now.number}.json" for now in (latest, newest)}
    assert {path.name for path in to.glob("_pack.*.json")} == names
