// Package driver is what the Go drivers have in common: the pace, what is counted, and the end.
//
// A driver is started as `PROGRAM BOOTSTRAP TOPIC PARTITIONS RATE ACKS CLIENT_ID [produce-only]`. It
// produces RATE records/s to the topic's partitions in turn under CLIENT_ID, and reads them as
// CLIENT_ID-reader, unless told otherwise. It prints `ready` when each partition can have been
// written to twice, works until its stdin is closed, waits for what is under way, and prints what
// it counted as a line of JSON.
package driver

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"slices"
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
	Reads      bool
	Over       chan struct{} // closed when it is over

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
	if len(os.Args) < 7 {
		log.Fatal("usage: PROGRAM BOOTSTRAP TOPIC PARTITIONS RATE ACKS CLIENT_ID [produce-only]")
	}
	partitions, err := strconv.Atoi(os.Args[3])
	Must(err)
	rate, err := strconv.ParseFloat(os.Args[4], 64)
	Must(err)
	d := &Driver{
		Bootstrap:  strings.Split(os.Args[1], ","),
		Topic:      os.Args[2],
		Partitions: partitions,
		AcksAll:    os.Args[5] == "all",
		ClientID:   os.Args[6],
		ReaderID:   os.Args[6] + "-reader",
		Reads:      !slices.Contains(os.Args[7:], "produce-only"),
		Over:       make(chan struct{}),
		rate:       rate,
		counted:    counted{Errors: map[string]int{}},
	}
	end := sync.OnceFunc(func() { close(d.Over) })
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	time.AfterFunc(most, end)
	return d
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

// Produce sends records when their time has come, until it is over. Each value is another number.
func (d *Driver) Produce(send func(value []byte, partition int)) {
	began := time.Now()
	for number := 0; ; number++ {
		due := began.Add(time.Duration(float64(number) / d.rate * float64(time.Second)))
		select {
		case <-d.Over:
			return
		case <-time.After(time.Until(due)):
		}
		d.mutex.Lock()
		d.counted.Sent++
		d.mutex.Unlock()
		send(fmt.Appendf(nil, "%-100d", number), number%d.Partitions)
	}
}

// Tell prints what was counted, with the version of the library.
func (d *Driver) Tell(module string) {
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
