package redistest

import (
	"fmt"
	"net"
	"strconv"
	"testing"
)

// Sentinel starts one Sentinel that watches a master under a name and alone decides
// that it has failed, half a second after it has.
func Sentinel(t testing.TB, master *Server, name string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	return start(t, func(string) string {
		return fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\n"+
			"sentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", name, host, port)
	}, nil)
}

// Cluster starts a Cluster of that many masters, and waits until it answers.
func Cluster(t testing.TB, masters int) []*Server {
	t.Helper()
	const slots = 16384
	nodes := make([]*Server, masters)
	buses := make([]string, masters)
	for i := range nodes {
		buses[i] = freePort(t)
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-port", buses[i], "--cluster-node-timeout", "2000", "--enable-debug-command", "yes")
		nodes[i].Do("CLUSTER", "ADDSLOTSRANGE", slots*i/masters, slots*(i+1)/masters-1)
		nodes[i].Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for i, node := range nodes[1:] {
		host, port, _ := net.SplitHostPort(node.Addr)
		nodes[0].Do("CLUSTER", "MEET", host, port, buses[i+1])
	}
	for _, node := range nodes {
		node.Until("cluster_known_nodes:"+strconv.Itoa(masters), "CLUSTER", "INFO")
		node.Until("cluster_state:ok", "CLUSTER", "INFO")
	}
	return nodes
}
