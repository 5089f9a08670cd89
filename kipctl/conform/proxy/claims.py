"""All that is asked of proxies."""

from kipctl.conform.proxy.claim import Claim
from kipctl.conform.proxy.contents import Answers, Hints, Requests, Tags
from kipctl.conform.proxy.endpoints import (
    InDescribeCluster,
    InFetch,
    InFindCoordinator,
    InMetadata,
    InProduce,
    Moved,
)
from kipctl.conform.proxy.order import NoAnswer, Order
from kipctl.conform.proxy.versions import Negotiated, Offered, Unknown

CLAIMS: tuple[type[Claim], ...] = (
    InMetadata,
    InFindCoordinator,
    InDescribeCluster,
    InProduce,
    InFetch,
    Hints,
    Answers,
    Requests,
    Tags,
    Offered,
    Unknown,
    Negotiated,
    Order,
    NoAnswer,
    Moved,
)
"""The last one moves a broker."""
