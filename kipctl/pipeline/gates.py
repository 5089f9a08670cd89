"""`--fail-if`: conditions on a comparison, and whether they hold.

    MEASURE > +10%     B is more than 10 % above A, and they are different
    MEASURE < -5%      B is more than 5 % below A, and they are different
    MEASURE > +5ms     B is more than 5 ms above A, and they are different
    MEASURE > 50ms     B is above 50 ms, whatever A is

Of a difference that cannot be told from chance for lack of runs, its size alone decides, as it does
of failed records always; and where a run has no value at all (none of its records was acknowledged)
every condition on it holds: a gate that cannot tell does not let it pass.
`>=` and `<=` may be used too.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kipctl.errors import UsageError

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_CONDITION = re.compile(
    r"\s*(?P<measure>\w+)\s*(?P<comparison>>=|<=|>|<)\s*"
    r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>%|us|ms|s|)\s*"
)
_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True, slots=True)
class Compared:
    """What a gate looks at: both values, and whether they are different (None: its size decides).

    A side that `may_lack` a value has none without a fault.
    """

    a: float | None
    b: float | None
    is_different: bool | None
    may_lack: bool = False


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition under which a comparison fails.

    `threshold` is a percentage of A (`relative`), or in the measure's own unit, a difference from
    A (`signed`) or B's value itself.
    """

    text: str
    measure: str
    comparison: str
    threshold: float
    relative: bool
    signed: bool

    def trips(self, compared: Compared) -> bool:
        """Whether the condition holds, or cannot be told for lack of a value."""
        if compared.b is None:
            return not compared.may_lack
        holds = _COMPARISONS[self.comparison]
        if not self.relative and not self.signed:
            return holds(compared.b, self.threshold)
        if compared.a is None:
            return not compared.may_lack
        if compared.is_different is False:
            return False
        difference = compared.b - compared.a
        if self.relative:
            # Of nothing, whatever there is is infinitely more.
            scale = 100 / compared.a if compared.a else float("inf")
            difference = difference * scale if difference else 0.0
        return holds(difference, self.threshold)


def parse_gate(text: str, units: Mapping[str, str]) -> Gate:
    """A gate from its text; `units` are the measures there are, with their units ("ms", ...).

    Raises UsageError for what is no condition, an unknown measure, or a time for a count.
    """
    match = _CONDITION.fullmatch(text)
    if not match:
        raise UsageError(
            f"--fail-if {text!r} is no condition.",
            "Write MEASURE > +10%, MEASURE < -5%, or MEASURE > 50ms.",
        )
    measure, unit = match["measure"], match["unit"]
    if measure not in units:
        raise UsageError(
            f"--fail-if {text!r}: no measure {measure!r}.", f"There are: {list_of(units)}."
        )
    is_time = units[measure] == "ms"
    if unit not in ("", "%") and not is_time:
        raise UsageError(f"--fail-if {text!r}: {measure} is not a time; leave {unit!r} out.")
    if unit == "" and is_time:
        raise UsageError(f"--fail-if {text!r}: say of the number whether it is %, us, ms or s.")
    number = float(match["number"]) * _MS.get(unit, 1.0)
    return Gate(
        text=" ".join(text.split()),
        measure=measure,
        comparison=match["comparison"],
        threshold=-number if match["sign"] == "-" else number,
        relative=unit == "%",
        signed=bool(match["sign"]),
    )


def list_of(units: Mapping[str, str]) -> str:
    """The measures' names, as a message or a help page lists them."""
    return ", ".join(units)
