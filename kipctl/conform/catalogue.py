"""All requirements, of clients, proxies and brokers."""

from kipctl.conform.broker.claims import BROKER_CLAIMS
from kipctl.conform.proxy.claims import CLAIMS
from kipctl.conform.requirement import Requirement
from kipctl.conform.rules import RULES

REQUIREMENTS: tuple[type[Requirement], ...] = (*RULES, *CLAIMS, *BROKER_CLAIMS)
BY_ID = {required.id: required for required in REQUIREMENTS}
