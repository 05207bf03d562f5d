package history

import (
	"slices"
	"sync"
	"time"
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
	names map[string][]lastSeen // at most mostAddresses of each
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
	list := c.names[client]
	for i := range list {
		if list[i].address == address {
			list[i].at = now
			return
		}
	}
	if c.names == nil {
		c.names = map[string][]lastSeen{}
	}
	if list == nil && len(c.names) >= mostNames {
		return
	}
	if len(list) >= mostAddresses {
		oldest := 0
		for i := range list {
			if list[i].at.Before(list[oldest].at) {
				oldest = i
			}
		}
		list[oldest] = lastSeen{address, now}
		return
	}
	c.names[client] = append(list, lastSeen{address, now})
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
		sharedName := SharedName{Client: name}
		for _, s := range seen {
			sharedName.Addresses = append(sharedName.Addresses, s.address)
		}
		slices.Sort(sharedName.Addresses)
		list = append(list, sharedName)
	}
	slices.SortFunc(list, func(a, b SharedName) int {
		if a.Client < b.Client {
			return -1
		}
		return 1
	})
	return list
}
