"""What hints save by how stale Metadata is, on a cluster that was measured and on another."""

from typing import NotRequired, TypedDict, final

from kipctl.documents.experiments import ComparedPoint, RedirectMeasured


class CurvePoint(TypedDict):
    stale_metadata_ms: float
    move_wait_ms: float


class CurveLine(TypedDict):
    arm: str
    points: list[CurvePoint]


Saved = TypedDict(
    "Saved",
    {
        "without": str,
        "with": str,
        "stale_metadata_ms": float,
        "without_ms": float,
        "with_ms": float,
        "saved_ms": float,
        "cut_percent": float | None,
        "beyond_the_curve": bool,
    },
)


class PredictedSaved(Saved):
    behind_statistic: str


class GainCurve(TypedDict):
    """The wait for a moved leader by how stale Metadata is, and what hints save there."""

    curves: list[CurveLine]
    savings: list[Saved]
    comparisons: list[ComparedPoint]


class BrokerBehind(TypedDict):
    broker: int
    behind_ms: dict[str, float]


class Prediction(TypedDict):
    """What hints would save on this cluster, from how long its brokers are behind."""

    behind_ms: dict[str, float]
    brokers: list[BrokerBehind]
    savings: list[PredictedSaved]


@final
class PredictionDocument(TypedDict):
    prediction: Prediction


class RedirectDocument(RedirectMeasured):
    gain_curve: NotRequired[GainCurve]
    prediction: NotRequired[Prediction]
