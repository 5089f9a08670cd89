"""The rules, in the order of their ids."""

from kipctl.conform.requirement import of_id, picked
from kipctl.conform.rule import Rule
from kipctl.conform.rules.kip219_01_silent import Silent
from kipctl.conform.rules.kip392_01_rack import Rack
from kipctl.conform.rules.kip392_02_preferred import ReadThere
from kipctl.conform.rules.kip392_03_offsets import Offsets
from kipctl.conform.rules.kip392_04_no_replica import DeadReplica, NoReplica, OutOfRange
from kipctl.conform.rules.kip392_07_lease import Lease
from kipctl.conform.rules.kip392_08_log_start import LogStart
from kipctl.conform.rules.kip392_09_errors import Errors, NotAvailable
from kipctl.conform.rules.kip526_01_new_topics import NewTopics
from kipctl.conform.rules.kip526_02_working_set import Age, WorkingSet
from kipctl.conform.rules.kip526_04_idle import Idle
from kipctl.conform.rules.kip526_05_failing import Failing, OneFails
from kipctl.conform.rules.kip951_01_follow import Follow
from kipctl.conform.rules.kip951_02_older import Older
from kipctl.conform.rules.kip951_03_same_self import SameSelf
from kipctl.conform.rules.kip951_04_same_other import SameOther
from kipctl.conform.rules.kip951_05_backoff import Backoff
from kipctl.conform.rules.kip951_06_stale_metadata import StaleMetadata
from kipctl.conform.rules.kip951_07_refresh import Refresh
from kipctl.conform.rules.kip951_08_async import Asynchronous
from kipctl.conform.rules.kip951_09_new_node import NewNode
from kipctl.conform.rules.kip951_10_moved_node import MovedNode
from kipctl.conform.rules.kip951_11_keep import Keep, KeepOthers
from kipctl.conform.rules.kip951_13_no_endpoint import NoEndpoint
from kipctl.conform.rules.kip951_14_nobody import Nobody
from kipctl.conform.rules.kip951_15_dead_leader import DeadLeader
from kipctl.conform.rules.kip951_16_fenced import Fenced
from kipctl.conform.rules.kip951_17_mixed import Mixed
from kipctl.conform.rules.kip951_18_overtaken import Overtaken
from kipctl.conform.rules.kip951_19_draft import Draft
from kipctl.conform.rules.kip951_20_recreated import Recreated
from kipctl.conform.rules.kip951_21_order import Order
from kipctl.conform.rules.kip951_22_throttled import Throttled
from kipctl.conform.rules.kip1102_01_rebootstrap import NoBrokers, Rebootstrap
from kipctl.conform.verdict import Role
from kipctl.errors import UsageError
from kipctl.next_step import Command

RULES: tuple[type[Rule], ...] = (
    Follow,
    Older,
    SameSelf,
    SameOther,
    Backoff,
    StaleMetadata,
    Refresh,
    Asynchronous,
    NewNode,
    MovedNode,
    Keep,
    KeepOthers,
    NoEndpoint,
    Nobody,
    DeadLeader,
    Fenced,
    Mixed,
    Overtaken,
    Draft,
    Recreated,
    Order,
    Throttled,
    Rack,
    ReadThere,
    Offsets,
    NoReplica,
    OutOfRange,
    DeadReplica,
    Lease,
    LogStart,
    Errors,
    NotAvailable,
    NewTopics,
    WorkingSet,
    Age,
    Idle,
    Failing,
    OneFails,
    Rebootstrap,
    NoBrokers,
    Silent,
)
BY_ID = {rule.id: rule for rule in RULES}


def rule_of(id: str) -> type[Rule]:
    """By its id. Raises UsageError."""
    return of_id(id, RULES)


def chosen(wanted: str | None, role: Role) -> tuple[type[Rule], ...]:
    """Those with these ids, or of these KIPs, that are about the role; all of them for None.

    Raises UsageError for a name of none.
    """
    rules = tuple(rule for rule in picked(wanted, RULES) if role in rule.least)
    if not rules:
        raise UsageError(
            f"None of these rules is about a {role}.", "See: " + Command("conform list")
        )
    return rules
