"""The probe's rows of integers as the datasets of the trace."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from kipctl import __version__
from kipctl.probe.run import Outcome
from kipctl.protocol.api_versions import OWN_SOFTWARE
from kipctl.trace import export


def record_batches(outcome: Outcome, directory: Path, dataset: str) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset, in Arrow's form with the schema of `kipctl.trace.schema`."""
    constants = {
        "source": "probe",
        "client": outcome.spec.config.client_id,
        "software_name": OWN_SOFTWARE,
        "software_version": __version__,
        **outcome.constants,
    }
    meaning = export.Meaning(outcome.start_us, constants, outcome.names)
    return export.record_batches(meaning, directory, dataset)
