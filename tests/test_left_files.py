"""What somebody has put into the place of a file holds no reader up, and fills no memory."""

import os
import socket
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from kipctl.left_files import open_left, read_left
from kipctl.measure.worker import SharedFolder, WorkOrder, finished_result
from kipctl.probe.produce.run import ProduceSpec
from kipctl.tap.export import left_in
from kipctl.tap.process import OUTCOME_FILE
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.folder_lock import in_use, is_in_use
from kipctl.trace.names import names_in
from kipctl.trace.rows import RowReader, chunks
from kipctl.trace.run_start import RunStart
from kipctl.transport.access import Access
from kipctl.typed_json import DamagedError

PATIENT_S = 60.0
MIB = 1 << 20


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def put_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_bytes(b"text")
    path.symlink_to(target)


PUT: dict[str, Callable[[Path], None]] = {
    "fifo": lambda path: os.mkfifo(path),
    "link": put_link,
    "link to nothing that ends": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "socket": put_socket,
}


def end_of(read: Callable[[], object]) -> BaseException | None:
    """What reading raises; in a thread, as a reader that hangs is what is looked for."""
    raised: list[BaseException | None] = []

    def try_it() -> None:
        try:
            read()
        except BaseException as error:
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=try_it, daemon=True)
    thread.start()
    thread.join(PATIENT_S)
    assert raised, "it hangs"
    return raised[0]


@pytest.mark.parametrize("what", PUT)
def test_what_is_no_file_is_a_declared_error(what: str, tmp_path: Path) -> None:
    path = tmp_path / "left"
    PUT[what](path)
    for read in (lambda: read_left(path, 100), lambda: open_left(path)):
        error = end_of(read)
        assert isinstance(error, DamagedError)
        assert error.what == f"{path} is damaged, or is not kipctl's: it is no regular file"


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "left"
    with pytest.raises(FileNotFoundError):
        read_left(path, 4)
    path.write_bytes(b"text")
    assert read_left(path, 4) == b"text"
    path.write_bytes(b"text.")
    with pytest.raises(DamagedError, match="it has more than 4 bytes"):
        read_left(path, 4)


@pytest.fixture
def order(tmp_path: Path) -> WorkOrder:
    """Of a worker that has begun, and left nothing else."""
    (tmp_path / "shared").mkdir()
    shared = SharedFolder.prepare(tmp_path / "shared", 2)
    RunStart("h", 5000, 9).write(shared.join(0))
    return WorkOrder.of([ProduceSpec(Access("h:1"), "t", 1)], shared, None)


def used(order: WorkOrder) -> None:
    with in_use(order.shared.directory(0), alone=True):
        pass


WIDTH = len(COLUMNS["batches"])
READERS: dict[str, tuple[str, Callable[[WorkOrder], object]]] = {
    "token": ("token", lambda order: order.shared.join(1)),
    "start": ("start", lambda order: order.shared.start_wall_us()),
    "stop": ("stop-0", lambda order: order.shared.should_stop(0)()),
    "end": ("end-0", lambda order: order.shared.is_finished(0)),
    "failure": ("0/failure", lambda order: order.shared.failure(0)),
    "begun": ("0/begun", lambda order: order.shared.begun(0)),
    "names": ("0/names.json", lambda order: names_in(order.shared.directory(0))),
    "rows": (
        f"0/{raw_path(Path(), 'batches')}",
        lambda order: [*chunks(raw_path(order.shared.directory(0), "batches"), WIDTH)],
    ),
    "new rows": (
        f"0/{raw_path(Path(), 'batches')}",
        lambda order: RowReader(raw_path(order.shared.directory(0), "batches"), WIDTH).new_rows(),
    ),
    "lock": ("0/lock", used),
    "a tap's names": ("0/names.json", lambda order: left_in(order.shared.directory(0), "")),
    "a tap's rows": (
        f"0/{raw_path(Path(), 'rpcs')}",
        lambda order: left_in(order.shared.directory(0), ""),
    ),
}


@pytest.mark.parametrize("what", PUT)
def test_a_folder_whose_lock_is_none_is_used_by_nobody(what: str, tmp_path: Path) -> None:
    PUT[what](tmp_path / "lock")
    answers: list[bool] = []
    assert end_of(lambda: answers.append(is_in_use(tmp_path))) is None
    assert answers == [False]


def test_a_lock_is_made_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(DamagedError), in_use(tmp_path / "0"):
        pytest.fail("it was opened")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_waits_for_a_fifo(reader: str, order: WorkOrder) -> None:
    name, read = READERS[reader]
    path = order.shared.path / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    error = end_of(lambda: read(order))
    assert isinstance(error, DamagedError)
    assert str(path) in error.what


@pytest.mark.parametrize(
    "read",
    [
        lambda order: finished_result(order, 0).outcome,
        lambda order: left_in(order.shared.directory(0), ""),
    ],
)
def test_an_outcome_that_is_a_fifo_is_what_the_rows_tell(
    read: Callable[[WorkOrder], object], order: WorkOrder
) -> None:
    os.mkfifo(order.shared.directory(0) / OUTCOME_FILE)
    outcomes: list[object] = []
    assert end_of(lambda: outcomes.append(read(order))) is None
    assert "it is no regular file" in getattr(outcomes[0], "failure", "")


OF_A_WORKER = ("token", "start", "stop", "end", "failure", "begun", "names")


@pytest.mark.parametrize("reader", [*OF_A_WORKER, "outcome"])
@pytest.mark.parametrize("repeated", [b"[],", b"{},", b"\0"])
def test_no_reader_takes_more_memory_than_what_kipctl_leaves_needs(
    reader: str, repeated: bytes, order: WorkOrder
) -> None:
    """Of a worker: a tap's folder is its user's own, and its 10,000 clients have more."""
    name, read = READERS.get(reader, ("0/outcome", lambda order: finished_result(order, 0)))
    content = b"[" + repeated * (4 * MIB // len(repeated)) + b"0]\n"
    (order.shared.path / name).write_bytes(content)
    del content
    tracemalloc.start()
    try:
        error = end_of(lambda: read(order))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB
    assert reader == "outcome" or "it has more than" in str(error)
