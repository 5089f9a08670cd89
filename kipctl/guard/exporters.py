"""What brokers' exporters tell a roll: when their process started, and what a guard looks at."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.samples import Sample

from kipctl.at_once import at_once
from kipctl.cluster.broker_metrics import APP_INFO, broker_in, fetch, samples_in
from kipctl.errors import KipctlError
from kipctl.guard.conditions import Condition

STARTED = "process_start_time_seconds"
"""Prometheus' own name for it, which the JMX exporter and all client libraries use."""
_TIMEOUT_S = 5.0
"""For all of them together."""


@dataclass(frozen=True, slots=True)
class ExporterAnswer:
    """One exporter's answer. `broker` is None where it does not say whose it is."""

    broker: int | None
    samples: Sequence[Sample]

    @property
    def started_at(self) -> float | None:
        """When the process started, in seconds since 1970; None where it does not say so."""
        values = (sample.value for sample in self.samples if sample.name == STARTED)
        return next(filter(math.isfinite, values), None)


@dataclass(slots=True)
class Exporters:
    """The exporters of a cluster's brokers, asked all at once. Each knows whose it is once asked.

    Of one that does not say so the broker is not known: it counts for guards alone.
    """

    urls: tuple[str, ...] = ()
    _brokers: dict[str, int] = field(default_factory=dict)

    def started_at(self, broker: int) -> float | None:
        """When the broker's process started; None where that is not known."""
        known = tuple(url for url, broker_id in self._brokers.items() if broker_id == broker)
        for answer in self._ask(known or self.urls).values():
            if isinstance(answer, ExporterAnswer) and answer.broker == broker:
                return answer.started_at
        return None

    def values(
        self, conditions: Iterable[Condition], away: int | None = None
    ) -> dict[str, float | None]:
        """The value of each metric by the condition's text; None is not known.

        That of the broker `away`, which is being restarted, is not asked for.
        """
        conditions = tuple(conditions)
        if not conditions:
            return {}
        answers = {
            url: answer
            for url, answer in self._ask(
                self.urls, {condition.name for condition in conditions}
            ).items()
            if away is None or self._brokers.get(url) != away
        }
        return {condition.text: worst_value(condition, answers) for condition in conditions}

    def _ask(
        self, urls: Sequence[str], names: Collection[str] = ()
    ) -> dict[str, ExporterAnswer | KipctlError]:
        """What each answers of metrics of these names, or why it does not, in `_TIMEOUT_S`."""
        wanted = {STARTED, *APP_INFO, *names}
        results = at_once(lambda url: _answer_of(url, wanted), urls, _TIMEOUT_S)
        answers = dict(zip(urls, results, strict=True))
        for url, answer in answers.items():
            if isinstance(answer, ExporterAnswer) and answer.broker is not None:
                self._brokers[url] = answer.broker
        return answers


def worst_value(
    condition: Condition, answers: Mapping[str, ExporterAnswer | KipctlError]
) -> float | None:
    """The value nearest the limit, or farthest beyond it, of all samples of that name that have
    those labels. None when an exporter has none, or did not answer. A pure function."""
    values: list[float] = []
    for answer in answers.values():
        if isinstance(answer, KipctlError):
            return None
        of_one = [
            sample.value
            for sample in answer.samples
            if sample.name == condition.name
            and all(sample.labels.get(name) == value for name, value in condition.labels)
        ]
        if not of_one:
            return None
        values += of_one
    if not values or any(value != value for value in values):  # NaN
        return None
    return max(values) if condition.sign.startswith(">") else min(values)


def _answer_of(url: str, names: Collection[str]) -> ExporterAnswer:
    samples = samples_in(fetch(url, _TIMEOUT_S), url, names)
    return ExporterAnswer(broker_in(samples), samples)
