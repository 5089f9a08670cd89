"""What the Python drivers have in common: the pace, what is counted, and the end.

A driver is started as `PROGRAM BOOTSTRAP TOPIC PARTITIONS RATE ACKS CLIENT_ID [produce-only]`. It
produces RATE records/s to the topic's partitions in turn under CLIENT_ID, and reads them as
CLIENT_ID-reader, unless told otherwise. It prints `ready` when each partition can have been written
to twice, works until its stdin is closed, waits for what is under way, and prints what it counted
as a line of JSON.
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

PATIENCE_S = 30.0
"""For what is under way at the end."""
MOST_S = 900.0
"""It ends by itself after that, should nobody close its stdin."""


class Driver:
    """A library at work; the numbers are of records."""

    def __init__(self) -> None:
        self.bootstrap, self.topic, partitions, rate, acks, self.client_id, *more = sys.argv[1:]
        self.reads = "produce-only" not in more
        self.partitions, self.rate = int(partitions), float(rate)
        self.acks: int | str = "all" if acks == "all" else int(acks)
        self.reader_id = f"{self.client_id}-reader"
        self.sent = self.acknowledged = self.failed = self.read = 0
        self.errors: Counter[str] = Counter()
        self.over = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._watch_stdin, daemon=True).start()
        timer = threading.Timer(MOST_S, self.over.set)
        timer.daemon = True
        timer.start()

    def _watch_stdin(self) -> None:
        sys.stdin.read()
        self.over.set()

    def done(self, error: object = None) -> None:
        """A record was acknowledged, or given up with this error."""
        with self._lock:
            if error is None:
                self.acknowledged += 1
                if self.acknowledged == 2 * self.partitions:
                    print("ready", flush=True)
            else:
                self.failed += 1
                self.errors[f"{type(error).__name__}: {error}"[:200]] += 1

    def next_record(self) -> tuple[bytes, int]:
        """The value of the next record, and its partition. Each value is another number."""
        number = self.sent
        self.sent += 1
        return b"%-100d" % number, number % self.partitions

    def produce(self, send: Callable[[bytes, int], None]) -> None:
        """Send records when their time has come, until it is over."""
        began = time.monotonic()
        while not self.over.is_set():
            value, partition = self.next_record()
            send(value, partition)
            self.over.wait(max(0.0, began + self.sent / self.rate - time.monotonic()))

    def reading(self, reader: Callable[[], Callable[[], int]]) -> threading.Thread:
        """A thread that makes a reader and reads until it is over, if this driver reads.

        What was made waits a moment when it is called, and says how many records came.
        """

        def work() -> None:
            try:
                read = reader() if self.reads else None
                while read and not self.over.is_set():
                    self.read += read()
            except Exception as error:
                with self._lock:
                    self.errors[f"reading: {type(error).__name__}: {error}"[:200]] += 1

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def tell(self, version: str) -> None:
        """Print what was counted."""
        counted = {"version": version, "sent": self.sent, "acknowledged": self.acknowledged}
        counted |= {"failed": self.failed, "read": self.read, "errors": dict(self.errors)}
        print(json.dumps(counted), flush=True)
