// A cluster of franz-go's kfake on loopback, with a topic, until its standard input ends. For each
// line that comes there, the topic's leaders move on by one broker.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	topic      = "orders"
	partitions = 6
	brokers    = 3
)

func main() {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(brokers),
		kfake.SeedTopics(partitions, topic),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	lines := bufio.NewScanner(os.Stdin)
	// kfake chooses leaders by chance: of a broker that leads all nothing can be asked.
	for moved := int32(0); ; moved++ {
		for partition := int32(0); partition < partitions; partition++ {
			leader := (partition + moved) % brokers
			if err := cluster.MoveTopicPartition(topic, partition, leader); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		if moved == 0 {
			fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
		} else {
			fmt.Println("moved")
		}
		if !lines.Scan() {
			return
		}
	}
}
