"""librdkafka, through confluent-kafka; its own settings but for acks."""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition, libversion, version
from driver import PATIENCE_S, Driver


def reader(driver: Driver) -> Callable[[], int]:
    consumer = Consumer(
        {
            "bootstrap.servers": driver.bootstrap,
            "client.id": driver.reader_id,
            "group.id": driver.reader_id,
            "client.rack": driver.rack,
            "auto.offset.reset": "earliest",
            **_ages(driver),
            "log_level": 0,
        }
    )
    partitions = range(driver.partitions)
    consumer.assign([TopicPartition(driver.topic, number, 0) for number in partitions])
    return lambda: sum(not message.error() for message in consumer.consume(100, 0.2))


def _ages(driver: Driver) -> dict[str, int]:
    return {
        "topic.metadata.refresh.interval.ms": driver.metadata_ms,
        "metadata.recovery.rebootstrap.trigger.ms": driver.metadata_ms,
    }


def produce(driver: Driver) -> None:
    producer = Producer(
        {
            "bootstrap.servers": driver.bootstrap,
            "client.id": driver.client_id,
            "acks": driver.acks,
            **_ages(driver),
            "log_level": 0,
        }
    )

    def send(value: bytes, partition: int) -> None:
        producer.produce(
            driver.topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: driver.done(error and KafkaException(error)),
        )
        producer.poll(0)

    driver.produce(send)
    producer.flush(PATIENCE_S)


if __name__ == "__main__":
    Driver().run(produce, reader, f"{version()} (librdkafka {libversion()[0]})")
