"""InitProducerId: an id and epoch for an idempotent producer (API 22)."""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int16, Int32, Int64, Request, Response


class InitProducerIdResponse(Response):
    """A new producer id, or the asked one with its next epoch."""

    throttle_time_ms: Annotated[Int32, Field(ignorable=True)] = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, Field("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Field("6+")] = -1


class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """`transactional_id` None is for a producer that is idempotent only.

    (The protocol's default is the empty string, which every broker refuses.)
    """

    api = Api(ApiKey.INIT_PRODUCER_ID, versions=(0, 6), flexible_since=2)

    transactional_id: str | None = None
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Field("3+")] = -1
    producer_epoch: Annotated[Int16, Field("3+")] = -1
    enable2_pc: Annotated[bool, Field("6+")] = False
    keep_prepared_txn: Annotated[bool, Field("6+")] = False
