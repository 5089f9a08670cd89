"""Every message, in every version, byte for byte against kio and kafka-python, on random values."""

from dataclasses import replace

import pytest
from all_requests import ALL_REQUESTS
from campaigns import as_many, campaign, chance
from kio.index import UnknownEntity
from looped import noted
from protocol_oracles import (
    ALL_VERSIONS,
    KAFKA_PYTHON,
    KIO,
    REQUESTS,
    UNKNOWN_TO_ALL,
    UNKNOWN_TO_KAFKA_PYTHON,
    Fill,
    kafka_python_bytes,
    kafka_python_class,
    kafka_python_reads,
    kio_bytes,
    kio_class,
    kio_reads,
    random_message,
    to_kio,
)

from kipctl.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.message import decode, encode

CASES = as_many(2, 100)


def messages(cls, version):
    """Nothing, everything, everything with nulls, and what chance makes."""
    choose = chance(f"{cls.__name__} {version}")
    fills = (Fill.FULL, Fill.NULLS, *(Fill.ANY for _ in range(CASES)))
    return [cls(), *(random_message(cls, version, choose, fill) for fill in fills)]


@campaign
@pytest.mark.parametrize("request_class", ALL_REQUESTS, ids=lambda cls: cls.__name__)
def test_others_write_and_read_the_same_bytes_as_the_same_message(request_class):
    for cls, version in (pair for pair in ALL_VERSIONS if pair[0].api is request_class.api):
        with noted(cls, version):
            for message in messages(cls, version):
                written = encode(message, version)
                assert decode(cls, written, version) == message
                if (cls, version) in KIO:
                    theirs = to_kio(message, version)
                    assert kio_bytes(theirs) == written
                    assert kio_reads(cls, version, written) == theirs
                if (cls, version) in KAFKA_PYTHON:
                    assert kafka_python_bytes(message, version) == written
                    if cls is ApiVersionsResponse:  # it reads those of any error as version 0
                        message = replace(message, error_code=0)
                        written = encode(message, version)
                    assert kafka_python_reads(cls, version, written) == message


def test_the_table_names_every_message_and_version_of_kipctl():
    spoken = {cls.__name__.removesuffix("Request"): cls.api.versions for cls in ALL_REQUESTS}
    assert spoken == REQUESTS
    for request in ALL_REQUESTS:
        assert request.api is request.response.api


def test_the_oracles_know_every_version_that_kipctl_knows():
    assert set(ALL_VERSIONS) - set(KIO) == UNKNOWN_TO_ALL
    shared = {cls for request in UNKNOWN_TO_KAFKA_PYTHON for cls in (request, request.response)}
    assert [(cls, version) for cls, version in KIO if cls not in shared] == KAFKA_PYTHON
    for cls, version in KIO:
        assert kio_class(cls, version).__version__ == version
        assert kio_class(cls, version).__flexible__ == (version >= cls.api.flexible_since)
    for cls, version in KAFKA_PYTHON:
        theirs = kafka_python_class(cls)
        assert theirs.valid_versions[1] >= version
        assert theirs.flexible_version_q(version) == (version >= cls.api.flexible_since)
        assert cls.api.key == theirs.API_KEY


def test_the_oracles_know_no_newer_version_of_these_messages():
    for request in ALL_REQUESTS:
        last = request.api.versions[1]
        if request in UNKNOWN_TO_KAFKA_PYTHON:
            with pytest.raises(UnknownEntity):
                kio_class(request, last + 1)
        else:
            known = last - (request is ApiVersionsRequest)  # see UNKNOWN_TO_ALL
            assert kafka_python_class(request).max_version == known


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "076b697063746c0231046162630000000700",
            ApiVersionsRequest(
                client_software_name="kipctl",
                client_software_version="1",
                cluster_id="abc",
                node_id=7,
            ),
        ),
        (
            "076b697063746c023100ffffffff00",
            ApiVersionsRequest(client_software_name="kipctl", client_software_version="1"),
        ),
        ("0081010000000300", ApiVersionsResponse(error_code=129, throttle_time_ms=3)),
    ],
)
def test_api_versions_5_is_what_java_4_4_0_writes(written, message):
    assert encode(message, 5).hex() == written
    assert decode(type(message), bytes.fromhex(written), 5) == message
