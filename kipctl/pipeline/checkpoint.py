"""Intermediate results that are computed once and kept: where a plan is cut off."""

from pyspark.sql import DataFrame


def checkpointed(frame: DataFrame) -> DataFrame:
    """The frame, computed now and kept, with a plan that begins at its rows.

    Spark goes through all of a plan again for each step that is added to it, and computes it again
    for each action on it.
    """
    return frame.localCheckpoint()
