"""Why it may not be told what a client did, or how long it took."""

from enum import StrEnum


class Doubt(StrEnum):
    """What keeps a wait from being told, or makes it longer than the client's own."""

    BUSY = "the machine was busy"
    CLOCKS = "brokers' clocks differ by more, or it is not known by how much"
    NO_LOG = "the log of a broker that led is missing"
    NAMESAKES = "several processes may share this client id and host"
    TAP = "the tap itself was late"


OF_MACHINE = (Doubt.BUSY, Doubt.TAP)
"""Doubts that also explain what looks like something else."""
TIMED = (*OF_MACHINE, Doubt.CLOCKS)
"""Doubts about times; what went where is known all the same."""
