"""librdkafka, through confluent-kafka; its own settings but for acks."""

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition, libversion, version
from driver import PATIENCE_S, Driver


def main() -> None:
    driver = Driver()
    common = {"bootstrap.servers": driver.bootstrap, "log_level": 0}
    producer = Producer(common | {"client.id": driver.client_id, "acks": driver.acks})
    consumer = Consumer(
        common | {"client.id": driver.reader_id, "group.id": driver.reader_id},
    )
    consumer.assign(
        [TopicPartition(driver.topic, number, 0) for number in range(driver.partitions)]
    )

    def send(value: bytes, partition: int) -> None:
        producer.produce(
            driver.topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: driver.done(error and KafkaException(error)),
        )
        producer.poll(0)

    def read() -> int:
        return sum(message.error() is None for message in consumer.consume(100, 0.2))

    reader = driver.reading(read)
    driver.produce(send)
    producer.flush(PATIENCE_S)
    reader.join(PATIENCE_S)
    consumer.close()
    driver.tell(f"{version()} (librdkafka {libversion()[0]})")


if __name__ == "__main__":
    main()
