"""librdkafka, through confluent-kafka; its own settings but for acks."""

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition, libversion, version
from driver import PATIENCE_S, Driver


def main() -> None:
    driver = Driver()
    common = {"bootstrap.servers": driver.bootstrap, "log_level": 0}
    producer = Producer(common | {"client.id": driver.client_id, "acks": driver.acks})

    def reader() -> Callable[[], int]:
        own = {"client.id": driver.reader_id, "group.id": driver.reader_id}
        consumer = Consumer(common | own)
        partitions = range(driver.partitions)
        consumer.assign([TopicPartition(driver.topic, number, 0) for number in partitions])
        return lambda: sum(not message.error() for message in consumer.consume(100, 0.2))

    def send(value: bytes, partition: int) -> None:
        producer.produce(
            driver.topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: driver.done(error and KafkaException(error)),
        )
        producer.poll(0)

    reading = driver.reading(reader)
    driver.produce(send)
    producer.flush(PATIENCE_S)
    reading.join(PATIENCE_S)
    driver.tell(f"{version()} (librdkafka {libversion()[0]})")


if __name__ == "__main__":
    main()
