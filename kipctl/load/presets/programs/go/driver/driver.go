// Package driver is what the Go drivers have in common: the pace, what is counted, and the end.
//
// It has the arguments that `python/driver.py` tells of.
package driver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Patience is for what is under way at the end.
const Patience = 30 * time.Second

// It ends by itself after that, should nobody close its stdin.
const most = 15 * time.Minute

// Driver is a library at work; the numbers are of records.
type Driver struct {
	Bootstrap  []string
	Topic      string
	Partitions int
	AcksAll    bool
	ClientID   string
	ReaderID   string
	Rack       string
	Age        time.Duration // of Metadata, at most
	Produces   bool
	Reads      bool

	over    chan struct{} // closed when it is over
	rate    float64
	mutex   sync.Mutex
	counted counted
}

type counted struct {
	Version      string         `json:"version"`
	Sent         int            `json:"sent"`
	Acknowledged int            `json:"acknowledged"`
	Failed       int            `json:"failed"`
	Read         int            `json:"read"`
	Errors       map[string]int `json:"errors"`
}

// New takes the program's arguments.
func New() *Driver {
	if len(os.Args) != 10 {
		log.Fatal("usage: PROGRAM ROLE BOOTSTRAP TOPIC PARTITIONS RATE ACKS CLIENT_ID RACK METADATA_MS")
	}
	metadataMs, err := strconv.Atoi(os.Args[9])
	Must(err)
	partitions, err := strconv.Atoi(os.Args[4])
	Must(err)
	rate, err := strconv.ParseFloat(os.Args[5], 64)
	Must(err)
	role := os.Args[1]
	d := &Driver{
		Bootstrap:  strings.Split(os.Args[2], ","),
		Topic:      os.Args[3],
		Partitions: partitions,
		AcksAll:    os.Args[6] == "all",
		ClientID:   os.Args[7],
		ReaderID:   os.Args[7] + "-reader",
		Rack:       os.Args[8],
		Age:        time.Duration(metadataMs) * time.Millisecond,
		Produces:   role != "consumer",
		Reads:      role != "producer",
		over:       make(chan struct{}),
		rate:       rate,
		counted:    counted{Errors: map[string]int{}},
	}
	if role == "producer" {
		go d.takeTopics()
	}
	end := sync.OnceFunc(func() { close(d.over) })
	if role == "both" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			end()
		}()
	}
	time.AfterFunc(most, end)
	return d
}

func (d *Driver) takeTopics() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		d.mutex.Lock()
		d.Topic = strings.TrimSpace(lines.Text())
		d.mutex.Unlock()
	}
}

// Target is the topic to which the next record goes.
func (d *Driver) Target() string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.Topic
}

// Must ends the program with an error.
func Must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Done tells that a record was acknowledged, or given up with this error.
func (d *Driver) Done(err error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if err != nil {
		d.counted.Failed++
		d.counted.Errors[err.Error()]++
		return
	}
	d.counted.Acknowledged++
	if d.counted.Acknowledged == 2*d.Partitions {
		fmt.Println("ready")
	}
}

// Read tells that so many records were read.
func (d *Driver) Read(records int) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.counted.Read += records
}

// ReadError tells that a read failed.
func (d *Driver) ReadError(err error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.counted.Errors["reading: "+err.Error()]++
}

// Run reads, and sends, as far as that is its role, until it is over.
func (d *Driver) Run(produce, read func(*Driver)) {
	if d.Reads {
		read(d)
	}
	if d.Produces {
		produce(d)
	} else {
		<-d.over
	}
}

// Produce sends records when their time has come, until it is over. Each value is another number.
func (d *Driver) Produce(send func(value []byte, partition int)) {
	began := time.Now()
	for number := 0; ; number++ {
		due := began.Add(time.Duration(float64(number) / d.rate * float64(time.Second)))
		select {
		case <-d.over:
			return
		case <-time.After(time.Until(due)):
		}
		d.mutex.Lock()
		d.counted.Sent++
		d.mutex.Unlock()
		send(fmt.Appendf(nil, "%-100d", number), number%d.Partitions)
	}
}

// Report prints what was counted, with the version of the library.
func (d *Driver) Report(module string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				d.counted.Version = strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	Must(json.NewEncoder(os.Stdout).Encode(d.counted))
}
