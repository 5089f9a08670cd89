"""What the Python drivers have in common: the pace, what is counted, and the end.

It is started as `PROGRAM ROLE BOOTSTRAP TOPIC PARTITIONS RATE ACKS CLIENT_ID RACK METADATA_MS`. A
`producer` sends RATE records/s to the topic's partitions in turn under CLIENT_ID, a `consumer`
reads them as CLIENT_ID-reader in RACK ("" for none), until they are ended. `both` is both, prints
`ready` when each partition can have been written to twice, works until its stdin is closed, waits
for what is under way, and prints what it counted as a line of JSON. METADATA_MS is how old Metadata
may become; a line of a producer's stdin is another topic that it sends to from then on.
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
        role, self.bootstrap, self.topic, partitions, rate, acks, self.client_id = sys.argv[1:8]
        self.rack, self.metadata_ms = sys.argv[8], int(sys.argv[9])
        self.produces, self.reads = role != "consumer", role != "producer"
        self.partitions, self.rate = int(partitions), float(rate)
        self.acks: int | str = "all" if acks == "all" else int(acks)
        self.reader_id = f"{self.client_id}-reader"
        self.sent = self.acknowledged = self.failed = self.read = 0
        self.errors: Counter[str] = Counter()
        self.over = threading.Event()
        self._lock = threading.Lock()
        watch = {"both": self._watch_stdin, "producer": self._take_topics}.get(role)
        if watch is not None:
            threading.Thread(target=watch, daemon=True).start()
        timer = threading.Timer(MOST_S, self.over.set)
        timer.daemon = True
        timer.start()

    def _watch_stdin(self) -> None:
        sys.stdin.read()
        self.over.set()

    def _take_topics(self) -> None:
        for line in sys.stdin:
            self.topic = line.strip()

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

    def run(
        self,
        produce: Callable[["Driver"], None],
        reader: Callable[["Driver"], Callable[[], int]],
        version: str,
    ) -> None:
        """Read and send as far as that is its role, and print what was counted.

        What `reader` made waits a moment when it is called, and says how many records came.
        """
        reading = threading.Thread(target=self._work, args=(reader,), daemon=True)
        if self.reads:
            reading.start()
        if self.produces:
            produce(self)
        if self.reads:
            reading.join(PATIENCE_S if self.produces else None)
        self.report(version)

    def _work(self, reader: Callable[["Driver"], Callable[[], int]]) -> None:
        try:
            read = reader(self)
            while not self.over.is_set():
                self.read += read()
        except Exception as error:
            with self._lock:
                self.errors[f"reading: {type(error).__name__}: {error}"[:200]] += 1

    def report(self, version: str) -> None:
        """Print what was counted."""
        counted = {"version": version, "sent": self.sent, "acknowledged": self.acknowledged}
        counted |= {"failed": self.failed, "read": self.read, "errors": dict(self.errors)}
        print(json.dumps(counted), flush=True)
