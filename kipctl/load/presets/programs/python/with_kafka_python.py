"""kafka-python; its own settings but for acks."""

from collections.abc import Callable

from driver import PATIENCE_S, Driver
from kafka import KafkaConsumer, KafkaProducer, TopicPartition, __version__


def reader(driver: Driver) -> Callable[[], int]:
    consumer = KafkaConsumer(
        bootstrap_servers=driver.bootstrap,
        client_id=driver.reader_id,
        client_rack=driver.rack,
        auto_offset_reset="earliest",
        metadata_max_age_ms=driver.metadata_ms,
    )
    partitions = [TopicPartition(driver.topic, number) for number in range(driver.partitions)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    return lambda: sum(map(len, consumer.poll(timeout_ms=200).values()))


def produce(driver: Driver) -> None:
    producer = KafkaProducer(
        bootstrap_servers=driver.bootstrap,
        client_id=driver.client_id,
        acks=driver.acks,
        metadata_max_age_ms=driver.metadata_ms,
    )

    def send(value: bytes, partition: int) -> None:
        future = producer.send(driver.topic, value, partition=partition)
        future.add_callback(lambda _: driver.done())
        future.add_errback(driver.done)

    driver.produce(send)
    producer.close(timeout=PATIENCE_S)


if __name__ == "__main__":
    Driver().run(produce, reader, __version__)
