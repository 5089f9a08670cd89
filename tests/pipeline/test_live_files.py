"""Files that are still written: each line is read once, whatever becomes of its file."""

import gzip
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import BinaryIO

import pytest
from campaigns import as_many, campaign, chance

from kipctl.errors import UsageError
from kipctl.pipeline.request_log import live_files
from kipctl.pipeline.request_log.live_files import LiveFiles, Piece, pieces_of

REQUEST = "[2026-01-31 12:00:00,{number:03}] DEBUG Completed request:{{{number}}}"


class Reader:
    """Reads what is new, and keeps the lines."""

    def __init__(self, *paths: Path, most_bytes: int = 1 << 20) -> None:
        self.files = LiveFiles([*map(str, paths)])
        self.lines: list[str] = []
        self._most_bytes = most_bytes
        self._end: dict[str, int] = {}

    def look(self, meanwhile: Callable[[], None] = lambda: None) -> list[str]:
        """The lines that are new; `meanwhile` happens after it is known where they are."""
        files = self.files.scan(self._end)
        end = {key: max(file.end, self._end.get(key, 0)) for key, file in files.items()}
        paths = {key: file.path for key, file in files.items()}
        pieces = [*pieces_of(paths, self._end, end, self._most_bytes)]
        meanwhile()
        new = [line.decode() for piece in pieces for line in self.files.lines(piece)]
        self.lines += new
        self._end |= end
        return new


def append(path: Path, text: str) -> None:
    with path.open("a", newline="") as file:
        file.write(text)


def pack(path: Path) -> None:
    Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def requests(first: int, last: int) -> list[str]:
    return [REQUEST.format(number=number) for number in range(first, last + 1)]


def written(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_what_is_added_is_read_when_its_line_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "kafka-request.log"
    reader = Reader(tmp_path)
    log.write_text("[2026-01-31 12:0")
    assert reader.look() == []
    log.write_text(written(requests(1, 2)) + "[2026")
    assert reader.look() == requests(1, 2)
    assert reader.look() == []
    append(log, written(requests(3, 3)).removeprefix("[2026"))
    append(log, "a\r\nb\rc\n")
    assert reader.look() == [*requests(3, 3), "a", "b", "c"]


class Broker:
    """Writes lines to its log."""

    def __init__(self, log: Path, random: Random) -> None:
        self.log = log
        self.lines: list[str] = []
        self._random = random
        self._rest = ""
        self._rotations = 0
        log.write_text("")

    def write(self) -> None:
        """Some lines, the last one perhaps not to its end."""
        first = len(self.lines)
        lines = requests(first, first + self._random.randrange(20))
        self.lines += lines
        text = self._rest + written(lines)
        cut = self._random.choice([len(text), self._random.randrange(len(text))])
        append(self.log, text[:cut])
        self._rest = text[cut:]

    def write_rest(self) -> None:
        append(self.log, self._rest)
        self._rest = ""

    def rotate(self) -> None:
        self.write_rest()
        self._rotations += 1
        older = Path(f"{self.log}.{self._rotations}")
        how = self._random.choice(["rename", "pack", "copy"])
        if how == "copy":
            shutil.copy(self.log, older)
        else:
            self.log.rename(older)
        self.log.write_text("")
        if how == "pack":
            pack(older)


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("is_meanwhile", [True, False])
def test_a_file_that_gets_another_name(
    tmp_path: Path, *, is_named: bool, is_packed: bool, is_meanwhile: bool
) -> None:
    """log4j's way, also between the plan and the reading, and where the file is named itself."""
    log, older = tmp_path / "kafka-request.log", tmp_path / "kafka-request.log.2026-11-29-13"
    log.write_text(written(requests(1, 2)))
    older.with_suffix(".2026-11-29-12").write_text(written(requests(91, 92)))
    reader = Reader(log if is_named else tmp_path)
    assert sorted(reader.look()) == [*requests(1, 2), *([] if is_named else requests(91, 92))]

    def rotate() -> None:
        log.rename(older)
        if is_packed:
            pack(older)
        log.write_text(written(requests(4, 5)))

    append(log, written(requests(3, 3)))
    if is_meanwhile:
        assert reader.look(rotate) == requests(3, 3)
        assert reader.look() == requests(4, 5)
    else:
        rotate()
        assert sorted(reader.look()) == requests(3, 5)
    assert reader.look() == []


def test_a_file_that_is_copied_and_begun_anew(tmp_path: Path) -> None:
    """logrotate's copytruncate: the copy goes on where the file was."""
    log = tmp_path / "request.log"
    log.write_text(written(requests(1, 2)))
    reader = Reader(tmp_path)
    reader.look()
    append(log, written(requests(3, 3)))
    shutil.copy(log, tmp_path / "request.log.1")
    log.write_text(written(requests(4, 4)))
    assert sorted(reader.look()) == requests(3, 4)


def test_a_file_that_is_emptied_while_it_is_read(tmp_path: Path) -> None:
    log = tmp_path / "request.log"
    lines = [f"{request} {'x' * 100_000}" for request in requests(1, 4)]
    log.write_text(written(lines))
    files = LiveFiles([str(log)])
    [file] = files.scan().values()
    read = files.lines(Piece(file.key, file.path, 0, file.end))
    first = next(read)
    shutil.copy(log, tmp_path / "request.log.1")
    log.write_text(written(requests(5, 5)))
    assert [line.decode() for line in (first, *read)] == lines


def test_a_file_that_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_files, "_LOOKS_AGAIN", 2)
    log = tmp_path / "request.log"
    log.write_text(written(requests(1, 1)))
    with pytest.raises(FileNotFoundError, match="was removed while it was read"):
        Reader(log).look(log.unlink)


def test_the_log_of_another_broker_beside_it_is_not_what_it_was_before(tmp_path: Path) -> None:
    log, other = tmp_path / "broker-1.log", tmp_path / "broker-10.log"
    log.write_text(written(requests(1, 1)))
    reader = Reader(log)
    reader.look()
    for name in (other.name, "broker-1-gc.log", "broker-1b.log"):
        (tmp_path / name).write_text(written(requests(50, 51)))
    log.rename(tmp_path / "broker-1-20260131.log")
    log.write_text(written(requests(2, 2)))
    assert reader.look() == requests(2, 2)


def test_paths_are_named_as_spark_takes_them(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(written(requests(1, 1)))
    (tmp_path / "_b.log").write_text(written(requests(2, 2)))
    for path in (f"file:{tmp_path}", f"file://{tmp_path}/*.log"):
        assert [Path(file.path).name for file in LiveFiles([path]).scan().values()] == ["a.log"]


def test_a_file_that_is_closed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not so what lies beside the one that is named."""
    log = tmp_path / "request.log"
    for name in (log.name, "request.log.1"):
        (tmp_path / name).write_text(written(requests(1, 1)))
    closed = [f"{log}.1"]

    def open_or_refuse(path: str, mode: str) -> BinaryIO:
        if path in closed:
            raise PermissionError(path)
        return Path(path).open("rb")

    monkeypatch.setattr(live_files, "open", open_or_refuse, raising=False)
    assert Reader(log).look() == requests(1, 1)
    closed.append(str(log))
    with pytest.raises(UsageError, match=r"request\.log cannot be read: permission denied"):
        Reader(log).look()


def test_a_file_without_requests_at_first_is_another_one_by_its_place(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"started\n{name}\n")
    assert sorted(Reader(tmp_path).look()) == ["a", "b", "started", "started"]


def test_what_is_no_log_is_passed_over(tmp_path: Path) -> None:
    for name in (".hidden", "_temporary/log", "00000000000000000000.log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(written(requests(1, 1)))
    (tmp_path / "b.gz").write_bytes(gzip.compress(written(requests(2, 2)).encode())[:-20])
    reader = Reader(tmp_path)
    assert reader.look() == []
    (tmp_path / "b.gz").write_bytes(gzip.compress(written(requests(2, 3)).encode()))
    assert reader.look() == requests(2, 3)


@pytest.mark.parametrize(
    ("piece", "rest"),
    [
        ("2026-01-31T12:00:00Z stdout P {start}", "2026-01-31T12:00:00Z stdout F {end}"),
        ('{{"log":"{start}","stream":"stdout"}}', '{{"log":"{end}\\n","stream":"stdout"}}'),
    ],
)
def test_a_line_in_pieces_is_whole_with_its_last_one(tmp_path: Path, piece: str, rest: str) -> None:
    log = tmp_path / "0.log"
    whole = rest.format(end=requests(1, 1)[0])
    first, last = piece.format(start=requests(2, 2)[0] + 16_384 * "x"), rest.format(end="}")
    log.write_text(written([whole, first]))
    reader = Reader(log)
    assert reader.look() == [whole]
    append(log, written([last]))
    assert reader.look() == [first, last]


def test_long_lines_without_an_end_of_their_own_are_not_waited_for(tmp_path: Path) -> None:
    """A shipper's `log` ends without a newline, however short it is."""
    lines = [f'{{"log":"{request}"}}' for request in requests(1, 3)]
    (tmp_path / "log").write_text(written(lines))
    assert Reader(tmp_path).look() == lines


@campaign
def test_each_line_is_read_once(tmp_path: Path) -> None:
    """A broker writes, half lines too, and rotates in one way or another; we look now and then."""
    random = chance("live files")
    for number in range(as_many(30, 3000)):
        folder = tmp_path / str(number)
        folder.mkdir()
        broker = Broker(folder / "kafka-request.log", random)
        named = random.choice([broker.log, folder])
        reader = Reader(named, most_bytes=random.choice([1, 50, 1000]))
        steps = [broker.write, broker.write, broker.rotate, reader.look]
        steps += [partial(reader.look, meanwhile) for meanwhile in (broker.write, broker.rotate)]
        for step in (reader.look, *random.choices(steps, k=20)):
            step()
        broker.write_rest()
        reader.look()
        assert sorted(reader.lines) == sorted(broker.lines)
