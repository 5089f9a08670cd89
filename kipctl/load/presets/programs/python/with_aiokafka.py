"""aiokafka; its own settings but for acks."""

import asyncio
import time
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, __version__
from driver import PATIENCE_S, Driver


async def read(driver: Driver) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=driver.bootstrap,
        client_id=driver.reader_id,
        client_rack=driver.rack or None,
        auto_offset_reset="earliest",
        metadata_max_age_ms=driver.metadata_ms,
    )
    await consumer.start()
    try:
        partitions = [TopicPartition(driver.topic, number) for number in range(driver.partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        while True:
            came = await consumer.getmany(timeout_ms=200)
            driver.read += sum(map(len, came.values()))
    except Exception as error:
        driver.errors[f"reading: {type(error).__name__}: {error}"[:200]] += 1
    finally:
        await consumer.stop()


async def produce(driver: Driver) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=driver.bootstrap,
        client_id=driver.client_id,
        acks=driver.acks,
        metadata_max_age_ms=driver.metadata_ms,
    )
    await producer.start()
    began = time.monotonic()
    while not driver.over.is_set():
        value, partition = driver.next_record()
        future = await producer.send(driver.topic, value, partition=partition)
        future.add_done_callback(lambda done: driver.done(done.exception()))
        await asyncio.sleep(max(0.0, began + driver.sent / driver.rate - time.monotonic()))
    with suppress(TimeoutError):
        await asyncio.wait_for(producer.flush(), PATIENCE_S)
    with suppress(TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(producer.stop(), PATIENCE_S)


async def main() -> None:
    driver = Driver()
    reading = asyncio.create_task(read(driver)) if driver.reads else None
    if driver.produces:
        await produce(driver)
        driver.report(__version__)
    if reading and not driver.produces:
        await reading
    elif reading:
        reading.cancel()


if __name__ == "__main__":
    asyncio.run(main())
