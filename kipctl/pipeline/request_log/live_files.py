"""The files of request logs that are still written: known whatever they are called by now, and read
as far as whole lines go.

A file is known by its first line. It keeps that when log4j gives it another name, when it is packed
and when logrotate copies it and begins it anew: what was read of it is not read again, and what was
written before goes on to be read under the new name.
"""

import io
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import glob
from hashlib import blake2b
from pathlib import Path
from time import sleep
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa

from kipctl.errors import UsageError
from kipctl.pipeline.files import each_once, is_hidden
from kipctl.pipeline.request_lines.envelope import MARKER
from kipctl.pipeline.request_log.files import DATA_OF_KAFKA

_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_IS_DATA = re.compile(DATA_OF_KAFKA)
_AS_RENAMED = r"(?:\.|[-_]\d)"
"""What follows the beginning of a log's name (up to its first point) when it has another name."""
_HEAD_BYTES = 64 << 10
"""Of a longer first line (Metadata of many partitions) so much tells the file from others."""
_STEP_BYTES = 64 << 10
_FOUND_AGAIN_S = 0.1
_LOOKS_AGAIN = 50
"""A listing may pass over a file while it is given another name."""
_CRI_PIECE = re.compile(rb"[^\"{]*(?:stdout|stderr) P(?::\S*)?(?: |$)")
_DOCKER_PIECE = re.compile(rb'\{\s*"log"\s*:\s*"(?:[^"\\]|\\.)*(?<!\\n)"')
_CUT_AT = 16_000
"""Docker cuts lines at 16 KiB, and does not say so."""


class LiveFile(NamedTuple):
    """A file: what it is known by, where it is, and where its last whole line ends (bytes, as they
    are unpacked)."""

    key: str
    path: str
    end: int


class Piece(NamedTuple):
    """Lines of a file that begin at `start` or after it, and before `end`."""

    key: str
    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it was when it was looked at: no other look finds more in it."""

    stat: tuple[int, ...]
    file: LiveFile | None


class LiveFiles:
    """The files at some paths of this machine; those that were last written to before `earliest_us`
    (since the epoch) are passed over."""

    def __init__(self, paths: Sequence[str], earliest_us: int = 0) -> None:
        self._paths = [path.removeprefix("file:") for path in paths]
        self._earliest_us = earliest_us
        self._seen: dict[str, _Seen] = {}
        self._older: frozenset[str] | None = None
        """By key what lay beside such files at the first look."""

    def scan(self, known: Collection[str] = ()) -> dict[str, LiveFile]:
        """The files that are there now, by key; of those that have the same one, the longest.

        What lies beside a file that is named itself, and has the beginning of its name, is that
        file as it was called before: if it is `known`, or has come since the first look.
        """
        files: dict[str, LiveFile] = {}
        beside: dict[str, LiveFile] = {}
        for path, is_beside in self._listed():
            try:
                file = self._looked_at(path)
            except PermissionError:
                if is_beside:
                    continue
                raise UsageError(f"{path} cannot be read: permission denied.") from None
            if file:
                group = beside if is_beside else files
                group[file.key] = max(file, group.get(file.key, file), key=_rank)
        if self._older is None:
            self._older = frozenset(beside)
        for key, file in beside.items():
            if key in known or key not in self._older:
                files[key] = max(file, files.get(key, file), key=_rank)
        return files

    def lines(self, piece: Piece) -> Iterator[bytes]:
        """The lines of a piece, without what ends them (as Hadoop knows it), wherever the file is
        by now, also if it is moved or emptied meanwhile. Raises FileNotFoundError if it has gone.
        """
        path, at = piece.path, piece.start
        for _ in range(_LOOKS_AGAIN):
            with suppress(OSError, EOFError), open(path, "rb") as raw:
                if _key_of(raw, path) == piece.key:
                    file = _unpacked(raw, path)
                    at = _skipped(file, at)
                    while at < piece.end and (line := file.readline()).endswith(b"\n"):
                        yield from line.splitlines()
                        at += len(line)
            if at >= piece.end:
                return
            now = self.scan({piece.key}).get(piece.key)
            if now is None or now.path == path:
                sleep(_FOUND_AGAIN_S)
            else:
                path = now.path
        raise FileNotFoundError(f"{piece.path} was removed while it was read.")

    def _listed(self) -> Iterator[tuple[str, bool]]:
        named = [
            at for path in self._paths for at in ([path] if os.path.exists(path) else glob(path))
        ]
        listed: set[str] = set()
        for root in each_once([f"file:{Path(path).absolute()}" for path in named]):
            at = Path(root.removeprefix("file:"))
            for file in _below(at) if at.is_dir() else [at]:
                listed.add(str(file))
        yield from ((at, False) for at in sorted(listed) if not is_hidden(Path(at).name))
        for path in map(Path, named):
            if not path.is_dir():
                start = path.name.partition(".")[0]
                was = re.compile(re.escape(start) + _AS_RENAMED)
                beside = {str(at.absolute()) for at in path.parent.iterdir() if was.match(at.name)}
                yield from ((file, True) for file in sorted(beside - listed))

    def _looked_at(self, path: str) -> LiveFile | None:
        try:
            with open(path, "rb") as raw:
                status = os.fstat(raw.fileno())
                stat = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
                if status.st_mtime_ns < 1000 * self._earliest_us or _IS_DATA.match(Path(path).name):
                    return None
                seen = self._seen.get(path)
                if seen is None or seen.stat != stat:
                    key = _key_of(raw, path)
                    file = LiveFile(key, path, _end_of(raw, path)) if key else None
                    seen = self._seen[path] = _Seen(stat, file)
            return seen.file
        except FileNotFoundError:  # it has another name meanwhile, or is gone
            return None
        except (OSError, EOFError):
            if Path(path).suffix in _PACKED:  # it is being packed
                return None
            raise


def pieces_of(
    files: Mapping[str, str], start: Mapping[str, int], end: Mapping[str, int], most_bytes: int
) -> Iterator[Piece]:
    """What is to be read of files (paths by key) from where they were read to (`start`) to where
    they are to be read to, in pieces of about so many bytes; packed ones in one."""
    for key in sorted(end):
        first, last = start.get(key, 0), end[key]
        step = (last - first) if Path(files[key]).suffix in _PACKED else most_bytes
        for at in range(first, last, max(1, step)):
            yield Piece(key, files[key], at, min(at + step, last))


def _skipped(file: BinaryIO, start: int) -> int:
    """Go to the first line that begins at `start` or later; returns where that is."""
    if not start:
        return 0
    before = start - 1
    if file.seekable():
        file.seek(before)
    else:
        while before:
            before -= len(file.read(min(before, 1 << 20))) or before
    return start - 1 + len(file.readline())


def _unpacked(raw: BinaryIO, path: str) -> BinaryIO:
    """The file from its start, unpacked if it is packed by its name."""
    if packed := _PACKED.get(Path(path).suffix):
        own = os.fdopen(os.dup(raw.fileno()), "rb")  # which is closed with the stream
        own.seek(0)
        return cast(BinaryIO, io.BufferedReader(pa.input_stream(own, packed), 1 << 20))
    raw.seek(0)
    return raw


def _key_of(raw: BinaryIO, path: str) -> str | None:
    """What a file is known by; None before its first line is whole.

    Two requests have the same line nowhere: it tells the time, the connection and a number. A first
    line without a request may, and counts with where the file lies on the disk.
    """
    head = _unpacked(raw, path).read(_HEAD_BYTES)
    line, newline, _ = head.partition(b"\n")
    if not newline and len(head) < _HEAD_BYTES:
        return None
    if MARKER.encode() not in line:
        status = os.fstat(raw.fileno())
        line += f" {status.st_dev} {status.st_ino}".encode()
    return blake2b(line, digest_size=16).hexdigest()


def _end_of(raw: BinaryIO, path: str) -> int:
    """Where the last whole line ends; a line in pieces is whole with its last one."""
    file = _unpacked(raw, path)
    if file is not raw:
        end = at = 0
        for line in file:
            at += len(line)
            end = at if line.endswith(b"\n") else end
        return end
    end = _newline_before(file, file.seek(0, os.SEEK_END)) + 1
    while end:
        start = _newline_before(file, end - 1) + 1
        file.seek(start)
        if not _is_piece(file.read(end - 1 - start)):
            break
        end = start
    return end


def _is_piece(line: bytes) -> bool:
    """Whether the next line goes on with it."""
    if _CRI_PIECE.match(line):
        return True
    return len(line) >= _CUT_AT and bool(_DOCKER_PIECE.match(line))


def _newline_before(file: BinaryIO, end: int) -> int:
    """Where the last newline before `end` is; -1 if there is none."""
    while end > 0:
        start = max(0, end - _STEP_BYTES)
        file.seek(start)
        if (at := file.read(end - start).rfind(b"\n")) >= 0:
            return start + at
        end = start
    return -1


def _rank(file: LiveFile) -> tuple[int, bool, str]:
    return file.end, Path(file.path).suffix not in _PACKED, file.path


def _below(folder: Path) -> Iterable[Path]:
    for child in folder.iterdir():
        if not is_hidden(child.name):
            yield from _below(child) if child.is_dir() else [child]
