"""What a run asks first of all, as its trace has it."""

import pytest
from metadata_answers import metadata_of
from scripted_broker import Asked, ScriptedBroker

from kipctl.probe.bootstrap import first_metadata
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.transport.access import as_access
from kipctl.transport.request import Cluster


@pytest.mark.parametrize("version", [8, 9, 13])
def test_its_size_is_that_of_the_frame_that_came(version: int) -> None:
    """From version 9 on a head has room for tags, a byte."""
    sizes: list[int] = []

    def answer(asked: Asked) -> Response | None:
        if not isinstance(asked.request, MetadataRequest):
            return None
        shown = metadata_of((1, 5), ports={1: broker.port})
        sizes.append(len(asked.answer(shown)))
        return shown

    with (
        ScriptedBroker(answer, {3: (0, version), 18: (0, 4)}) as broker,
        Cluster(as_access(broker.address), "test", 20) as cluster,
    ):
        _, row = first_metadata("t", cluster)
    assert (row.api_version, [row.response_bytes]) == (version, sizes)
    assert row.broker == -1  # a bootstrap server, whose id nobody knows yet
    assert (row.queued_behind, row.queued_behind_us, row.critical, row.error) == (0, 0, False, 0)
