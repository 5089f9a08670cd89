"""aiokafka; its own settings but for acks."""

import asyncio
import time
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, __version__
from driver import PATIENCE_S, Driver


async def main() -> None:
    driver = Driver()
    producer = AIOKafkaProducer(
        bootstrap_servers=driver.bootstrap, client_id=driver.client_id, acks=driver.acks
    )
    consumer = AIOKafkaConsumer(bootstrap_servers=driver.bootstrap, client_id=driver.reader_id)
    await producer.start()
    await consumer.start()
    partitions = [TopicPartition(driver.topic, number) for number in range(driver.partitions)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)

    async def read() -> None:
        while True:
            came = await consumer.getmany(timeout_ms=200)
            driver.read += sum(map(len, came.values()))

    reader = asyncio.create_task(read())
    under_way = set()
    began = time.monotonic()
    while not driver.over.is_set():
        value, partition = driver.next_record()
        future = await producer.send(driver.topic, value, partition=partition)
        under_way.add(future)
        future.add_done_callback(under_way.discard)
        future.add_done_callback(lambda done: driver.done(done.exception()))
        await asyncio.sleep(max(0.0, began + driver.sent / driver.rate - time.monotonic()))
    reader.cancel()
    with suppress(TimeoutError):
        await asyncio.wait_for(producer.flush(), PATIENCE_S)
    if reader.done() and not reader.cancelled() and (error := reader.exception()):
        driver.errors[f"reading: {type(error).__name__}: {error}"] += 1
    driver.tell(__version__)
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(producer.stop(), consumer.stop()), PATIENCE_S)


if __name__ == "__main__":
    asyncio.run(main())
