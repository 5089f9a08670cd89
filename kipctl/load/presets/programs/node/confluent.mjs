// confluent-kafka-javascript (librdkafka) at work, through its promises; its own settings but for
// acks.

import { createRequire } from 'node:module'
import { Driver } from './driver.mjs'

const require = createRequire(import.meta.url)
const { KafkaJS, librdkafkaVersion } = require('@confluentinc/kafka-javascript')
const { Kafka, logLevel } = KafkaJS

const driver = new Driver()
const common = { brokers: driver.brokers, logLevel: logLevel.NOTHING }
const ages = {
  'topic.metadata.refresh.interval.ms': driver.metadataMs,
  'metadata.recovery.rebootstrap.trigger.ms': driver.metadataMs
}
const producer = new Kafka({ kafkaJS: { ...common, clientId: driver.clientId } })
  .producer({ kafkaJS: { acks: driver.acks }, ...ages })
const consumer = new Kafka({ kafkaJS: { ...common, clientId: driver.readerId } })
  .consumer({ kafkaJS: { groupId: driver.readerId, fromBeginning: true }, 'client.rack': driver.rack, ...ages })
if (driver.produces) await producer.connect()
if (driver.reads) {
  await consumer.connect()
  await consumer.subscribe({ topic: driver.topic })
  await consumer.run({ eachMessage: async () => driver.read(1) })
}

await driver.produce((value, partition) =>
  producer.send({ topic: driver.topic, messages: [{ value, partition }] }))
const { version } = require('@confluentinc/kafka-javascript/package.json')
await driver.report(`${version} (librdkafka ${librdkafkaVersion})`, async () => {
  if (driver.produces) await producer.disconnect()
  if (driver.reads) await consumer.disconnect()
})
