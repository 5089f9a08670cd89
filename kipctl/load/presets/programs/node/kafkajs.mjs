// kafkajs at work; its own settings but for acks.

import { createRequire } from 'node:module'
import { Driver } from './driver.mjs'

const require = createRequire(import.meta.url)
const { Kafka, logLevel } = require('kafkajs')

const driver = new Driver()
const common = { brokers: driver.brokers, logLevel: logLevel.NOTHING }
const producer = new Kafka({ ...common, clientId: driver.clientId })
  .producer({ metadataMaxAge: driver.metadataMs })
const consumer = new Kafka({ ...common, clientId: driver.readerId })
  .consumer({ groupId: driver.readerId, rackId: driver.rack, metadataMaxAge: driver.metadataMs })
if (driver.produces) await producer.connect()
if (driver.reads) {
  await consumer.connect()
  await consumer.subscribe({ topic: driver.topic, fromBeginning: true })
  consumer.on(consumer.events.CRASH, ({ payload }) => driver.note(payload.error))
  await consumer.run({ eachMessage: async () => driver.read(1) })
}

await driver.produce((value, partition) =>
  producer.send({ topic: driver.topic, acks: driver.acks, messages: [{ value, partition }] }))
await driver.report(require('kafkajs/package.json').version, async () => {
  await producer.disconnect()
  await consumer.disconnect()
})
