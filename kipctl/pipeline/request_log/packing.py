"""Request logs into a pack: what is new, or has changed since it was packed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kipctl.documents.analysis import PackDocument
from kipctl.errors import UsageError
from kipctl.pipeline.files import Files, unquoted
from kipctl.pipeline.jvm import of_table
from kipctl.pipeline.request_lines.reader import Reading
from kipctl.pipeline.request_lines.rows import Kind
from kipctl.pipeline.request_log.files import (
    UTC_EVERYWHERE,
    LogFile,
    Timezones,
    files_at,
    text_in,
    zones_of,
)
from kipctl.pipeline.request_log.groups import of_kind
from kipctl.pipeline.request_log.log import read_text, with_blocks_of
from kipctl.pipeline.request_log.pack import SLICE_US, Pack, PackedFile, day_of, same_file
from kipctl.pipeline.request_log.places import Place, places_of

_NO_SIZE = -1
_BATCH_BYTES = 1 << 30
"""For each core: so much is packed at a time, and is not packed again if kipctl is killed then."""

Zones = Mapping[str, str]
"""By the name of a file."""


def pack(
    spark: SparkSession,
    paths: Sequence[str],
    folder: str,
    timezones: Timezones = UTC_EVERYWHERE,
) -> PackDocument:
    """Pack request logs (paths as of `read_request_log`) into the folder; the document of
    `request-log pack --output json`.

    Files that are in the pack as they are now are not read. Those that are not there any more stay
    in it. Raises UsageError for a path that is not there, and for a folder that holds something
    else, PipelineError for a pack of another format, or that another kipctl packs into.
    """
    into = Pack.at_or_new(spark, folder)
    files = files_at(spark, paths)
    own = zones_of(spark, timezones)
    zones = {file.name: own.get(file.name, timezones.everywhere or "UTC") for file in files}

    def is_away(entry: PackedFile) -> bool:
        return not Files(spark, unquote(entry.file)).exists()

    plan = Plan.of(into.files, files, zones, is_away)
    if plan.renamed:
        into = into.with_files(plan.kept)
    lines = 0
    for batch in batches(plan.to_pack, _BATCH_BYTES * spark.sparkContext.defaultParallelism):
        packed = _packed(into, batch, timezones.everywhere or "UTC", zones)
        packed = unless_written_meanwhile(packed, _listed(spark, paths))
        lines += sum(entry.lines for entry in packed)
        into = into.with_files(replaced(into.files, packed, files, is_away))
    into.remove_unused()
    return {
        "pack": unquoted(into.folder),
        "files_in_pack": len(into.files),
        "files_packed": len(plan.to_pack),
        "files_unchanged": len(files) - len(plan.to_pack) - len(plan.renamed),
        "files_renamed": len(plan.renamed),
        "lines_packed": lines,
        "bytes_read": sum(file.bytes for file in plan.to_pack),
        "slice_seconds": SLICE_US / 1e6,
    }


def _listed(spark: SparkSession, paths: Sequence[str]) -> Sequence[LogFile]:
    """The files that are there by now; none where a path is there no more."""
    try:
        return files_at(spark, paths)
    except UsageError:
        return ()


def unless_written_meanwhile(
    packed: Iterable[PackedFile], files: Iterable[LogFile]
) -> list[PackedFile]:
    """The files as packed, but of a size that none has where one of those names is another file by
    now, or has grown: whether its lines were read before is not known, and it is packed again."""
    there = {file.name: file for file in files}

    def by_now(entry: PackedFile) -> PackedFile:
        now = there.get(entry.file)
        is_same = now is not None and same_file(entry, now, entry.zone)
        return entry if is_same else msgspec.structs.replace(entry, bytes=_NO_SIZE)

    return list(map(by_now, packed))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done: `kept` are the files of the pack under the names that they have now, of
    which some were `renamed` (the new names)."""

    kept: tuple[PackedFile, ...]
    renamed: frozenset[str]
    to_pack: tuple[LogFile, ...]

    @classmethod
    def of(
        cls,
        packed: Sequence[PackedFile],
        files: Iterable[LogFile],
        zones: Zones,
        is_away: Callable[[PackedFile], bool],
    ) -> "Plan":
        """A file is what was packed if its name, size, time and zone are the same; so is one of
        another name, if what was packed is not at its own name any more (log4j numbers all files
        anew when it begins another one). What is to be packed is in the order of its last write.
        """
        by_name = {entry.file: entry for entry in packed}
        here = {file.name: file for file in files}
        moved: dict[tuple[int, int, str], PackedFile] = {}
        for entry in packed:
            own = here.get(entry.file)
            if own is None or not same_file(entry, own, entry.zone):
                moved[entry.bytes, entry.modified_us, entry.zone] = entry
        renamed: dict[str, PackedFile] = {}
        to_pack = []
        for file in sorted(here.values(), key=lambda file: (file.modified_us, file.name)):
            zone = zones[file.name]
            before = by_name.get(file.name)
            if before and same_file(before, file, zone):
                continue
            key = (file.bytes, file.modified_us, zone)
            candidate = moved.get(key)
            if candidate and (candidate.file in here or is_away(candidate)):
                renamed[file.name] = moved.pop(key)
            else:
                to_pack.append(file)
        sources = {entry.file for entry in renamed.values()}
        left = (entry for entry in packed if entry.file not in sources)
        kept = [_displaced(entry) if entry.file in renamed else entry for entry in left]
        kept += [msgspec.structs.replace(entry, file=name) for name, entry in renamed.items()]
        return cls(tuple(kept), frozenset(renamed), tuple(to_pack))


def replaced(
    before: Iterable[PackedFile],
    packed: Sequence[PackedFile],
    files: Iterable[LogFile],
    is_away: Callable[[PackedFile], bool],
) -> list[PackedFile]:
    """The files of a pack after some were packed: without those that these go on with. Such a one
    has the same first request, and is of the same name, or not at its own any more: it was packed
    while it grew, and has been renamed or compressed since. Others whose name is taken stay."""
    firsts = {entry.file: entry.first for entry in packed}
    longest: dict[str | None, int] = {}
    for entry in packed:
        longest[entry.first] = max(entry.lines, longest.get(entry.first, 0))
    here = {file.name: file for file in files}

    def goes_on(entry: PackedFile) -> bool:
        if entry.file in firsts and firsts[entry.file] == entry.first:
            return True
        if entry.first is None or longest.get(entry.first, 0) < entry.lines:
            return False
        own = here.get(entry.file)
        return is_away(entry) if own is None else not same_file(entry, own, entry.zone)

    left = (entry for entry in before if not goes_on(entry))
    return [*packed, *(_displaced(entry) if entry.file in firsts else entry for entry in left)]


def _displaced(entry: PackedFile) -> PackedFile:
    """A file whose name is another one's now, as the oldest of those that are numbered."""
    return msgspec.structs.replace(entry, file=f"{entry.file}#{entry.batch}")


def batches(files: Iterable[LogFile], most_bytes: int) -> Iterator[list[LogFile]]:
    """The files, in their order, in groups of no more bytes, or of one file."""
    group: list[LogFile] = []
    for file in files:
        if group and sum(member.bytes for member in group) + file.bytes > most_bytes:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _packed(into: Pack, files: Sequence[LogFile], zone: str, zones: Zones) -> list[PackedFile]:
    """The files, with their rows written."""
    text = text_in(into.spark, files)
    reading = Reading(zone, {file.name: zones[file.name] for file in files}, slice_us=SLICE_US)
    read = read_text(text, reading)
    blocks = of_kind(read.rows, Kind.BLOCK)
    first = F.min(F.when(F.col("text").isNotNull(), F.struct("block", "id", "text")))
    of_files = blocks.groupBy("file").agg(first["text"].alias("text"), F.sum("requests"))
    told = {file: (first, lines) for file, first, lines in of_files.collect()}
    rows = with_blocks_of(read, text)
    logs = _logs(into.spark, files, places_of(read.summary.seen))
    by = rows.join(F.broadcast(logs), "file", "left").withColumn("day", day_of(F.col("slice")))
    batch = into.write(by)
    return [
        PackedFile(
            *(file.name, file.bytes, file.modified_us, zones[file.name], batch, file.name),
            lines=told.get(file.name, (None, 0))[1],
            first=told.get(file.name, (None, 0))[0],
        )
        for file in files
    ]


def _logs(spark: SparkSession, files: Sequence[LogFile], places: Iterable[Place]) -> DataFrame:
    """Of each file the `log` by which it is found in the pack: its broker, else its own name."""
    brokers = {at.file: f"broker-{at.broker}" for at in places if at.broker is not None}
    names = [file.name for file in files]
    logs = [brokers.get(name) or unquote(name).rpartition("/")[2] for name in names]
    return of_table(spark, pa.table({"file": names, "log": logs}))
