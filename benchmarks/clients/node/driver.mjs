// What the JavaScript drivers have in common: the pace, what is counted, and the end.
//
// A driver is started as `PROGRAM BOOTSTRAP TOPIC PARTITIONS RATE ACKS CLIENT_ID [produce-only]`. It
// produces RATE records/s to the topic's partitions in turn under CLIENT_ID, and reads them as
// CLIENT_ID-reader, unless told otherwise. It prints `ready` when each partition can have been
// written to twice, works until its stdin is closed, waits for what is under way, and prints what
// it counted as a line of JSON.

import { setTimeout as sleep } from 'node:timers/promises'

const PATIENCE_MS = 30_000 // for what is under way at the end
const MOST_MS = 900_000 // it ends by itself after that, should nobody close its stdin

export class Driver {
  constructor () {
    const [bootstrap, topic, partitions, rate, acks, clientId, ...more] = process.argv.slice(2)
    this.brokers = bootstrap.split(',')
    this.topic = topic
    this.partitions = Number(partitions)
    this.rate = Number(rate)
    this.acks = acks === 'all' ? -1 : Number(acks)
    this.clientId = clientId
    this.readerId = `${clientId}-reader`
    this.reads = !more.includes('produce-only')
    this.counted = { sent: 0, acknowledged: 0, failed: 0, read: 0, errors: {} }
    this.over = false
    const end = () => { this.over = true }
    process.stdin.on('end', end).resume()
    setTimeout(end, MOST_MS).unref()
  }

  // A record was acknowledged, or given up with this error.
  done (error) {
    if (error) {
      this.counted.failed++
      this.note(error)
    } else if (++this.counted.acknowledged === 2 * this.partitions) {
      console.log('ready')
    }
  }

  read (records) {
    this.counted.read += records
  }

  note (error) {
    const text = `${error.name}: ${error.message}`.slice(0, 200)
    this.counted.errors[text] = (this.counted.errors[text] ?? 0) + 1
  }

  // Sends records when their time has come, until it is over, and waits for them. `send` gets a
  // value (each is another number) and a partition; it resolves when the record is acknowledged.
  async produce (send) {
    const began = performance.now()
    const underWay = new Set()
    while (!this.over) {
      const number = this.counted.sent++
      const sent = send(String(number).padEnd(100), number % this.partitions)
        .then(() => this.done(), error => this.done(error))
        .finally(() => underWay.delete(sent))
      underWay.add(sent)
      const due = began + this.counted.sent / this.rate * 1000
      await sleep(Math.max(0, due - performance.now()))
    }
    await Promise.race([Promise.all(underWay), sleep(PATIENCE_MS)])
  }

  // Prints what was counted, and ends the program: some clients do not end by themselves.
  async tell (version, close) {
    console.log(JSON.stringify({ version, ...this.counted }))
    await Promise.race([close().catch(() => {}), sleep(2000)])
    process.exit(0)
  }
}
