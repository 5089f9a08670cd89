"""Stock clients as producer and as consumer of one load, each through a tap of its own."""

from pathlib import Path

import numpy as np
import pytest

from kipctl.experiments.arms.end_to_end import CONSUMER, PRODUCER, Load, measure_both
from kipctl.experiments.arms.experiment import recorded_in
from kipctl.experiments.arms.names import parse_arm
from kipctl.experiments.arms.stand import Place, stand_at
from kipctl.lab.cluster import Lab
from kipctl.load.own_topic import own_topic
from kipctl.measure.delivery import follow_batches
from kipctl.trace.columns import COLUMNS
from kipctl.trace.run_rows import dataset, rows

pytestmark = pytest.mark.kafka
BATCH = {name: i for i, name in enumerate(COLUMNS["batches"])}
READ = {name: i for i, name in enumerate(COLUMNS["reads"])}


@pytest.mark.parametrize(
    ("producer", "consumer", "software"),
    [
        ("java-4.3.1", "librdkafka", "apache-kafka-java 4.3.1"),
        ("librdkafka", "java-4.3.1", "confluent-kafka-python"),
    ],
)
def test_what_one_client_wrote_another_read(
    lab: Lab, tmp_path: Path, producer: str, consumer: str, software: str
) -> None:
    arms = (parse_arm(producer), parse_arm(consumer))
    load = Load("all", throughput=100, warmup_s=3)
    with (
        stand_at(Place(lab.access), arms, lambda _: None) as stand,
        own_topic(stand.cluster, 6, 0, lambda _: None),
        recorded_in(tmp_path / "run") as run,
    ):
        both, _ = measure_both(
            load, stand, run, lambda _: None, writer=arms[0], reader=arms[1], client_rack="rack-3"
        )
    written = both.written
    assert written.software.startswith(software)
    assert written.measured_by == "tap"
    assert written.failed == 0
    batches = rows(dataset(run, "batches", PRODUCER), "batches")
    reads = rows(dataset(run, "reads", CONSUMER), "reads")
    followed = follow_batches(batches, reads)
    assert followed[:, BATCH["records"]].sum() > 100
    assert not followed[:, BATCH["error"]].any()
    # A record is read after it was made, on one clock for both taps.
    assert (followed[:, BATCH["acked_us"]] > followed[:, BATCH["sent_us"]]).all()
    with_records = reads[reads[:, READ["records"]] > 0]
    assert np.unique(with_records[:, READ["broker"]]).tolist() == [3]
    assert set(dataset(run, "reads", CONSUMER)["client_rack"].to_pylist()) == {"rack-3"}
