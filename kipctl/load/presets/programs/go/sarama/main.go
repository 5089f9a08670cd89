// sarama at work; its own settings but for acks, and for the release of Kafka that it is told to
// speak as (SARAMA_VERSION).
package main

import (
	"os"
	"sync"
	"time"

	"driver"

	"github.com/IBM/sarama"
)

func main() {
	d := driver.New()
	d.Run(produce, read)
	d.Report("github.com/IBM/sarama")
}

func produce(d *driver.Driver) {
	settings := newConfig(d)
	settings.ClientID = d.ClientID
	settings.Producer.Partitioner = sarama.NewManualPartitioner
	settings.Producer.Return.Successes = true
	if d.AcksAll {
		settings.Producer.RequiredAcks = sarama.WaitForAll
	}
	producer, err := sarama.NewAsyncProducer(d.Bootstrap, settings)
	driver.Must(err)
	var told sync.WaitGroup
	told.Go(func() {
		for range producer.Successes() {
			d.Done(nil)
		}
	})
	told.Go(func() {
		for failed := range producer.Errors() {
			d.Done(failed.Err)
		}
	})

	d.Produce(func(value []byte, partition int) {
		producer.Input() <- &sarama.ProducerMessage{
			Topic: d.Target(), Partition: int32(partition), Value: sarama.ByteEncoder(value),
		}
	})
	producer.AsyncClose()
	all := make(chan struct{})
	go func() {
		told.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(driver.Patience):
	}
}

func newConfig(d *driver.Driver) *sarama.Config {
	settings := sarama.NewConfig()
	settings.Metadata.RefreshFrequency = d.Age
	if version := os.Getenv("SARAMA_VERSION"); version != "" {
		parsed, err := sarama.ParseKafkaVersion(version)
		driver.Must(err)
		settings.Version = parsed
	}
	return settings
}

func read(d *driver.Driver) {
	reading := newConfig(d)
	reading.ClientID, reading.RackID = d.ReaderID, d.Rack
	reading.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(d.Bootstrap, reading)
	driver.Must(err)
	for number := range d.Partitions {
		partition, err := consumer.ConsumePartition(d.Topic, int32(number), sarama.OffsetOldest)
		driver.Must(err)
		go func() {
			for range partition.Messages() {
				d.Read(1)
			}
		}()
		go func() {
			for err := range partition.Errors() {
				d.ReadError(err.Err)
			}
		}()
	}
}
