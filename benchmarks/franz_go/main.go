// One run of franz-go: so many records produced to a topic, or read from it. Prints JSON.
//
// Produce: acks=1 without idempotence, 5 requests in flight to a broker, batches of 16,384 bytes,
// no linger. With -rate a record is sent when its time comes and its latency counts from then.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	brokers = flag.String("brokers", "", "bootstrap servers")
	topic   = flag.String("topic", "", "")
	records = flag.Int("records", 0, "how many")
	rate    = flag.Float64("rate", -1, "records a second, -1 for as fast as it goes")
	size    = flag.Int("size", 1000, "bytes of a value")
	consume = flag.Bool("consume", false, "read from the earliest offsets instead")
	fetch   = flag.Int("fetch-size", 1<<20, "bytes of a partition in an answer")
)

func main() {
	flag.Parse()
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(*brokers, ",")...)}
	said := map[string]float64{}
	if *consume {
		said["seconds"] = read(options)
	} else {
		produce(options, said)
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		log.Fatal(err)
	}
}

func client(options []kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	return made
}

func produce(options []kgo.Opt, said map[string]float64) {
	made := client(append(options,
		kgo.DefaultProduceTopic(*topic),
		kgo.RequiredAcks(kgo.LeaderAck()),
		kgo.DisableIdempotentWrite(),
		kgo.MaxProduceRequestsInflightPerBroker(5),
		kgo.ProducerBatchMaxBytes(16384),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(32<<20 / *size),
	))
	value := make([]byte, *size)
	latencies := make([]time.Duration, *records)
	late := make([]time.Duration, 0, *records)
	var all sync.WaitGroup
	all.Add(*records)
	began := time.Now()
	for k := range *records {
		due := time.Now()
		if *rate > 0 {
			due = began.Add(time.Duration(float64(k) / *rate * 1e9))
			time.Sleep(time.Until(due))
			late = append(late, time.Since(due))
		}
		made.Produce(context.Background(), kgo.SliceRecord(value), func(_ *kgo.Record, err error) {
			if err != nil {
				log.Fatal(err)
			}
			latencies[k] = time.Since(due)
			all.Done()
		})
	}
	all.Wait()
	said["rate"] = float64(*records) / time.Since(began).Seconds()
	said["p99_ms"] = quantile(latencies, 0.99).Seconds() * 1e3
	said["p999_ms"] = quantile(latencies, 0.999).Seconds() * 1e3
	if len(late) > 0 {
		said["error_us"] = quantile(late, 0.99).Seconds() * 1e6
	}
}

func quantile(values []time.Duration, share float64) time.Duration {
	slices.Sort(values)
	return values[int(share*float64(len(values)-1))]
}

func read(options []kgo.Opt) float64 {
	made := client(append(options,
		kgo.ConsumeTopics(*topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxPartitionBytes(int32(*fetch)),
	))
	began, count := time.Now(), 0
	for count < *records {
		fetches := made.PollFetches(context.Background())
		fetches.EachError(func(_ string, _ int32, err error) { log.Fatal(err) })
		fetches.EachRecord(func(record *kgo.Record) {
			if len(record.Value) != *size {
				log.Fatalf("a value of %d bytes", len(record.Value))
			}
			count++
		})
	}
	return time.Since(began).Seconds()
}
