// What the JavaScript drivers have in common: the pace, what is counted, and the end.
//
// It has the arguments that `python/driver.py` tells of.

import { createInterface } from 'node:readline'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

const PATIENCE_MS = 30_000 // for what is under way at the end
const MOST_MS = 900_000 // it ends by itself after that, should nobody close its stdin

export class Driver {
  constructor () {
    const [role, bootstrap, topic, partitions, rate, acks, clientId, rack, metadataMs] =
      process.argv.slice(2)
    this.brokers = bootstrap.split(',')
    this.topic = topic
    this.partitions = Number(partitions)
    this.rate = Number(rate)
    this.acks = acks === 'all' ? -1 : Number(acks)
    this.clientId = clientId
    this.readerId = `${clientId}-reader`
    this.rack = rack
    this.metadataMs = Number(metadataMs)
    this.produces = role !== 'consumer'
    this.reads = role !== 'producer'
    this.counted = { sent: 0, acknowledged: 0, failed: 0, read: 0, errors: {} }
    this.over = false
    const end = () => { this.over = true }
    if (role === 'both') process.stdin.on('end', end).resume()
    if (role === 'producer') {
      createInterface({ input: process.stdin }).on('line', line => { this.topic = line.trim() })
    }
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

  // Sends records when their time has come, until it is over, and waits for them; a consumer sends
  // none. `send` gets a value (each is another number) and a partition; it resolves when the record
  // is acknowledged.
  async produce (send) {
    const began = performance.now()
    const underWay = new Set()
    while (!this.over) {
      if (!this.produces) {
        await sleep(100)
        continue
      }
      const number = this.counted.sent++
      const sent = send(String(number).padEnd(100), number % this.partitions)
        .then(() => this.done(), error => this.done(error))
        .finally(() => underWay.delete(sent))
      underWay.add(sent)
      const due = began + this.counted.sent / this.rate * 1000
      const early = due - performance.now()
      await (early > 1 ? sleep(early) : setImmediate()) // sleep takes 1 ms at least
    }
    await Promise.race([Promise.all(underWay), sleep(PATIENCE_MS)])
  }

  // Prints what was counted, and ends the program: some clients do not end by themselves.
  async report (version, close) {
    console.log(JSON.stringify({ version, ...this.counted }))
    await Promise.race([close().catch(() => {}), sleep(2000)])
    process.exit(0)
  }
}
