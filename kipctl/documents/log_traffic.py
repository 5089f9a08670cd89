"""Parts of the document of `analyze request-log`: how long requests took, and who sent them."""

from typing import TypedDict


class TimeQuantiles(TypedDict):
    """Times in milliseconds, nearest-rank, rounded down by less than 0.2 %."""

    p50: float
    p90: float
    p99: float
    p999: float
    max: float


class TimedApi(TypedDict):
    """Where the time of requests went, as brokers log it; Fetch of followers is apart."""

    api: str
    api_key: int
    is_follower: bool
    requests: int
    total_time_ms: TimeQuantiles
    request_queue_time_ms: TimeQuantiles
    local_time_ms: TimeQuantiles
    remote_time_ms: TimeQuantiles
    throttle_time_ms: TimeQuantiles
    response_queue_time_ms: TimeQuantiles
    send_time_ms: TimeQuantiles


class TimedBroker(TimedApi):
    broker: int | None


class TimedClient(TimedApi):
    client_id: str | None


class LogLatency(TypedDict):
    """How long brokers took; each has what was asked most, first."""

    latency_by_api: list[TimedApi]
    latency_by_broker: list[TimedBroker]
    latency_by_client: list[TimedClient]


class LoggedPrincipal(TypedDict):
    """Who sent requests over which listener; clients of different id or host count."""

    principal: str | None
    listener: str | None
    security_protocol: str | None
    origin: str
    client_count: int
    connections: int
    requests: int


class RackCrossing(TypedDict):
    """Bytes of records that were read; null across racks where no rack of the cluster is known."""

    fetched_bytes: int
    cross_rack_bytes: int | None
    price_of_30_days: float | None


class Talker(RackCrossing):
    """A client id's records; the rack is the one that it names as a consumer."""

    client_id: str | None
    software: str
    version: str
    rack: str | None
    produced_bytes: int


class RacklessReads(RackCrossing):
    client_count: int


class DeprecatedUse(TypedDict):
    """Versions that Kafka 4.0 refuses (KIP-896), or that brokers say are deprecated."""

    client_id: str | None
    software: str
    version: str
    api: str
    api_version: int
    requests: int
