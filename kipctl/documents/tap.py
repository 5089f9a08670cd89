"""The document of `kipctl tap`."""

from typing import NotRequired, TypedDict

from kipctl.documents.common import Action, ClientFinding, ClientVerdict, Waits


class Conditions(TypedDict, total=False):
    """What the tap changes on the way; empty for one that only looks on."""

    cap: dict[str, int]
    delay_ms: dict[str, float]
    drop_hints: bool
    stale_metadata_ms: float
    resets_per_minute: float


class Connections(TypedDict):
    open: int
    made: int
    lost: int
    reset: int


class Requests(TypedDict):
    total: int
    per_second: float
    not_decoded: int
    acks_0: int
    by_api: dict[str, int]


class HintsSent(TypedDict):
    sent: int
    draft: int
    dropped: int


class MovesSeen(TypedDict):
    met: int
    found: int
    """Of those that were met, the leaders that it got to, and not in a loop: the waits are of
    them."""
    given_up: int
    loops: int
    by_outcome: dict[str, int]
    hint_faults: dict[str, int]
    wait_ms: Waits


class MetadataSeen(TypedDict):
    total: int
    by_cause: dict[str, int]
    answered_the_same: int


class FirstSeen(TypedDict):
    """Where a finding was seen first: since the tap began, and at which broker."""

    ms: float
    topic: str | None
    partition: int | None
    broker: int | None


class TapFinding(ClientFinding):
    first: FirstSeen


class TapClient(TypedDict):
    client_id: str
    host: str
    software_name: str | None
    software_version: str | None
    verdict: ClientVerdict
    findings: list[TapFinding]
    connections: Connections
    requests: Requests
    produce_errors: dict[str, int]
    fetch_errors: dict[str, int]
    leader_errors: int
    redirects: int
    hints: HintsSent
    refused_by_hint: dict[str, int]
    moves: MovesSeen
    records_took_ms: Waits | None
    metadata_rpcs: MetadataSeen


class Machine(TypedDict):
    busy_percent: float | None
    tap_late_ms: float


class Listener(TypedDict):
    """The broker by its address, host:port."""

    broker: str
    port: int


class HintsWorth(TypedDict):
    """What a client waited for a moved leader (p50) with hints and without, and how many of them it
    met each time."""

    client_id: str
    host: str
    with_ms: float
    without_ms: float
    met_with: int
    met_without: int


class TapSeen(TypedDict):
    cluster_id: str | None
    seconds: float
    conditions: Conditions
    doubts: list[str]
    machine: Machine
    listeners: list[Listener]
    clients: list[TapClient]
    leaders: dict[str, int]
    dropped_connections: int
    dropped: list[str]
    cpu_seconds: float
    peak_memory_bytes: int
    clients_connect_to: NotRequired[str]
    actions: NotRequired[list[Action]]
    rotations: NotRequired[int]
    """By the tap itself (`--rotate`)."""
    rotated_topic: NotRequired[str]
    wanted_moves: NotRequired[int]
    """So many moved leaders each client was to meet (`--until-met`)."""
    all_met: NotRequired[bool]
    """Whether each has."""


class TapDocument(TapSeen):
    """With `--and-without-hints` what was seen then is in `without_hints`."""

    hints_worth: NotRequired[list[HintsWorth]]
    without_hints: NotRequired[TapSeen]
