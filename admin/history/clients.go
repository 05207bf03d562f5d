package history

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
)

const (
	// mostNames bounds the names of clients that are followed, and mostAddresses the addresses
	// of each.
	mostNames     = 5_000
	mostAddresses = 4
)

// SharedName is a name of a client under which requests came from several addresses.
type SharedName struct {
	Client    string
	Addresses []string
}

// clientAddresses are the addresses from which clients lately came. The zero value has none.
type clientAddresses struct {
	mu    sync.Mutex
	names map[string][]lastSeen // at most mostAddresses of each, the latest last
}

type lastSeen struct {
	address string
	at      time.Time
}

// see notes a request of a client. A name that is the address says nothing.
func (c *clientAddresses) see(client, address string, now time.Time) {
	if client == address || address == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list, known := c.names[client]
	if !known && len(c.names) >= mostNames {
		return
	}
	if c.names == nil {
		c.names = map[string][]lastSeen{}
	}
	list = slices.DeleteFunc(list, func(s lastSeen) bool { return s.address == address })
	c.names[client] = append(list[max(len(list)-mostAddresses+1, 0):], lastSeen{address, now})
}

// shared are the names with several addresses in the last hour. It forgets what is older.
func (c *clientAddresses) shared(now time.Time) (list []SharedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, seen := range c.names {
		seen = slices.DeleteFunc(seen, func(s lastSeen) bool { return now.Sub(s.at) > kept })
		if len(seen) == 0 {
			delete(c.names, name)
			continue
		}
		c.names[name] = seen
		if len(seen) < 2 {
			continue
		}
		sharedName := SharedName{Client: name, Addresses: lists.Map(seen, func(s lastSeen) string { return s.address })}
		slices.Sort(sharedName.Addresses)
		list = append(list, sharedName)
	}
	slices.SortFunc(list, func(a, b SharedName) int { return strings.Compare(a.Client, b.Client) })
	return list
}
