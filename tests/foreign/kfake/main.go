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
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		for partition := int32(0); partition < partitions; partition++ {
			leader := cluster.LeaderFor(topic, partition)
			if err := cluster.MoveTopicPartition(topic, partition, (leader+1)%brokers); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		fmt.Println("moved")
	}
}
