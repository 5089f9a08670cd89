// franz-go at work; its own settings but for acks, with which it needs to be told to be without
// idempotence.
package main

import (
	"context"

	"driver"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	d := driver.New()
	d.Run(produce, read)
	d.Report("github.com/twmb/franz-go")
}

func produce(d *driver.Driver) {
	options := []kgo.Opt{
		kgo.SeedBrokers(d.Bootstrap...),
		kgo.ClientID(d.ClientID),
		kgo.MetadataMaxAge(d.Age),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if !d.AcksAll {
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	producer, err := kgo.NewClient(options...)
	driver.Must(err)

	d.Produce(func(value []byte, partition int) {
		record := &kgo.Record{Topic: d.Target(), Partition: int32(partition), Value: value}
		producer.Produce(context.Background(), record, func(_ *kgo.Record, err error) { d.Done(err) })
	})
	patience, cancel := context.WithTimeout(context.Background(), driver.Patience)
	defer cancel()
	_ = producer.Flush(patience)
	producer.Close()
}

func read(d *driver.Driver) {
	offsets := map[int32]kgo.Offset{}
	for number := range d.Partitions {
		offsets[int32(number)] = kgo.NewOffset().AtStart()
	}
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(d.Bootstrap...),
		kgo.ClientID(d.ReaderID),
		kgo.Rack(d.Rack),
		kgo.MetadataMaxAge(d.Age),
		kgo.RecheckPreferredReplicaInterval(d.Age),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{d.Topic: offsets}),
	)
	driver.Must(err)
	go func() {
		for {
			fetches := consumer.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachError(func(_ string, _ int32, err error) { d.ReadError(err) })
			d.Read(fetches.NumRecords())
		}
	}()
}
