// @platformatic/kafka at work; its own settings but for acks.

import { readFile } from 'node:fs/promises'
import { Consumer, Producer, stringSerializers } from '@platformatic/kafka'
import { Driver } from './driver.mjs'

const driver = new Driver()
const producer = new Producer({
  clientId: driver.clientId,
  bootstrapBrokers: driver.brokers,
  metadataMaxAge: driver.metadataMs,
  serializers: stringSerializers
})
const consumer = new Consumer({
  clientId: driver.readerId,
  groupId: driver.readerId,
  clientRack: driver.rack || undefined,
  bootstrapBrokers: driver.brokers,
  metadataMaxAge: driver.metadataMs
})
if (driver.reads) {
  consumer.consume({
    topics: [driver.topic], mode: 'earliest', fallbackMode: 'earliest', autocommit: true
  }).then(stream => {
    stream.on('data', () => driver.read(1))
    stream.on('error', error => driver.note(error))
  }, error => driver.note(error))
}

await driver.produce((value, partition) => producer.send({
  messages: [{ topic: driver.topic, value, partition }],
  acks: driver.acks
}))
const about = new URL('./node_modules/@platformatic/kafka/package.json', import.meta.url)
await driver.report(JSON.parse(await readFile(about)).version, async () => {
  await producer.close(true)
  await consumer.close(true)
})
