"""What KIP-951 published of its roll ("Performance results"), and how a set-up differs from its."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Published:
    """A p99 in milliseconds before and with hints, as the KIP's page has it."""

    acks: str
    partitions: str
    """High or low: the page gives no numbers."""
    measure: str
    """`produce` or `end_to_end`."""
    baseline_ms: float
    hints_ms: float

    @property
    def cut_percent(self) -> float:
        return 100 * (1 - self.hints_ms / self.baseline_ms)

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"cut_percent": self.cut_percent}


PUBLISHED = (
    Published("all", "high", "produce", 155.65, 151.8),
    Published("all", "high", "end_to_end", 188.0, 184.0),
    Published("all", "low", "produce", 390.95, 374.35),
    Published("all", "low", "end_to_end", 393.0, 374.5),
    Published("1", "high", "produce", 84.7, 83.3),
    Published("1", "high", "end_to_end", 106.5, 101.0),
    Published("1", "low", "produce", 3.25, 2.95),
    Published("1", "low", "end_to_end", 12.5, 12.5),
)
_BROKERS, _CONTROLLERS = 6, 3


def published_for(acks: str, partitions: int, among: tuple[int, ...]) -> tuple[Published, ...]:
    """The published rows to set beside a cell; `among` are the partitions of all cells.

    The most partitions are held against the KIP's high, the fewest against its low. With a single
    number of them it is high from 50 on.
    """
    few = min(among) if len(among) > 1 else min(among[0], 49)
    which = "low" if partitions <= few else "high"
    return tuple(row for row in PUBLISHED if row.acks == acks and row.partitions == which)


def set_up_differences(document: Mapping[str, Any]) -> tuple[str, ...]:
    """How the set-up of a result differs from the KIP's, in sentences; from the result's document.

    The KIP: 6 brokers and 3 controllers on m5.xlarge machines of their own, 6 such machines with
    clients of the OpenMessaging Benchmark; 70 minutes, brokers restarted one by one with 10 minutes
    between them; its percentiles are of the whole run.
    """
    found = ["one machine for brokers, controllers and clients; the KIP had 15 (m5.xlarge)"]
    if (brokers := document["brokers"]) != _BROKERS:
        found.append(f"{brokers} brokers, the KIP's {_BROKERS}")
    if (controllers := document["controllers"]) != _CONTROLLERS:
        found.append(f"{controllers} controller{'s'[: controllers != 1]}, the KIP's {_CONTROLLERS}")
    if not document["controlled"]:
        found.append("brokers were killed; the KIP's were restarted in good order")
    found.append(
        "a restart follows the last one after seconds, in the KIP after 10 minutes: so here its"
        " share of the run, and with it p99, is far greater"
    )
    found.append(
        f"{document['throughput']:,.0f} records/s of {document['record_size']:,} bytes by one"
        " producer; the KIP names no rate, and had 6 machines of OpenMessaging clients"
    )
    return tuple(found)
