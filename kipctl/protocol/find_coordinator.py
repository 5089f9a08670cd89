"""FindCoordinator: the broker that keeps a group or a transaction (API 10)."""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int8, Int16, Int32, Message, Request, Response

GROUP = 0
TRANSACTION = 1
SHARE = 2


class Coordinator(Message):
    """The coordinator of one key, or the error; then `node_id` is -1."""

    key: Annotated[str, Field("4+")] = ""
    node_id: Annotated[Int32, Field("4+")] = 0
    host: Annotated[str, Field("4+")] = ""
    port: Annotated[Int32, Field("4+")] = 0
    error_code: Annotated[Int16, Field("4+")] = 0
    error_message: Annotated[str | None, Field("4+", ignorable=True)] = ""


class FindCoordinatorResponse(Response):
    """One coordinator up to version 3; from 4, one for each key, in `coordinators` (KIP-699)."""

    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, Field("0-3")] = 0
    error_message: Annotated[str | None, Field("1-3", ignorable=True)] = ""
    node_id: Annotated[Int32, Field("0-3")] = 0
    host: Annotated[str, Field("0-3")] = ""
    port: Annotated[Int32, Field("0-3")] = 0
    coordinators: Annotated[tuple[Coordinator, ...], Field("4+")] = ()


class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """`key_type` is `GROUP`, `TRANSACTION` or `SHARE` (version 6); `key` is for versions to 3."""

    api = Api(ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible_since=3)

    key: Annotated[str, Field("0-3")] = ""
    key_type: Annotated[Int8, Field("1+")] = GROUP
    coordinator_keys: Annotated[tuple[str, ...], Field("4+")] = ()
