// kafka-go at work; its own settings but for acks, and batches that go after 10 ms, not after a
// second.
package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"driver"

	"github.com/segmentio/kafka-go"
)

// What it is given where nothing is asked of its Metadata's age: then its own, 6 s, stays.
const javasAge = 300 * time.Second

// byKey sends a record to the partition that its key names.
type byKey struct{}

func (byKey) Balance(record kafka.Message, partitions ...int) int {
	number, err := strconv.Atoi(string(record.Key))
	driver.Must(err)
	return number
}

func main() {
	d := driver.New()
	d.Run(produce, read)
	d.Report("github.com/segmentio/kafka-go")
}

func produce(d *driver.Driver) {
	acks := kafka.RequireOne
	if d.AcksAll {
		acks = kafka.RequireAll
	}
	transport := &kafka.Transport{ClientID: d.ClientID}
	if d.Age != javasAge {
		transport.MetadataTTL = d.Age
	}
	producer := &kafka.Writer{
		Addr:         kafka.TCP(d.Bootstrap...),
		Balancer:     byKey{},
		RequiredAcks: acks,
		Async:        true,
		BatchTimeout: 10 * time.Millisecond,
		Transport:    transport,
		Completion: func(records []kafka.Message, err error) {
			for range records {
				d.Done(err)
			}
		},
	}
	d.Produce(func(value []byte, partition int) {
		record := kafka.Message{Topic: d.Target(), Key: []byte(strconv.Itoa(partition)), Value: value}
		if err := producer.WriteMessages(context.Background(), record); err != nil {
			d.Done(err)
		}
	})
	closed := make(chan error)
	go func() { closed <- producer.Close() }()
	select {
	case err := <-closed:
		driver.Must(err)
	case <-time.After(driver.Patience):
		d.ReadError(errors.New("the writer did not close"))
	}
}

func read(d *driver.Driver) {
	dialer := &kafka.Dialer{ClientID: d.ReaderID, Timeout: 10 * time.Second, DualStack: true}
	for number := range d.Partitions {
		consumer := kafka.NewReader(kafka.ReaderConfig{
			Brokers: d.Bootstrap, Topic: d.Topic, Partition: number, Dialer: dialer,
		})
		go func() {
			for {
				_, err := consumer.ReadMessage(context.Background())
				switch {
				case err == nil:
					d.Read(1)
				default:
					d.ReadError(err)
					time.Sleep(100 * time.Millisecond)
				}
			}
		}()
	}
}
