package budget

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/redistest"
)

// delayed is the address of a relay to a server, whose answers come later by so much.
func delayed(t *testing.T, server string, by time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	conns := []net.Conn{}
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, in, out)
			mu.Unlock()
			all.Go(func() {
				_, _ = io.Copy(out, in)
				_ = out.Close()
			})
			all.Go(func() { relaySlowly(in, out, by) })
		}
	})
	return l.Addr().String()
}

// relaySlowly brings what comes from one side to the other, later by so much.
func relaySlowly(to, from net.Conn, by time.Duration) {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 1000)
	go func() {
		defer close(pieces)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if n > 0 {
				pieces <- piece{data[:n], time.Now().Add(by)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		<-time.After(time.Until(p.at))
		_, _ = to.Write(p.data)
	}
	_ = to.Close()
}

// Four abides at a Redis that is there, but answers late, never take more than there is.
func TestASlowRedisIsWaitedFor(t *testing.T) {
	if testing.Short() {
		return // it takes 12 s
	}
	const amount, width, windows = 60, 2 * time.Second, 4
	server := redistest.Start(t)
	first, err := store.NewRedis(&policy.Store{Hosts: []string{server.Addr}}, nil)
	must(t, err)
	defer first.Close()
	_, err = first.Pulse(t.Context(), store.Member{})
	must(t, err)
	<-time.After(store.RecoveryTime + 100*time.Millisecond) // a Redis that is new
	var all sync.WaitGroup
	var total atomic.Int64
	lent := int64(0)
	spec := limit.Spec{As: limit.Fixed, Amount: amount, Window: width}
	counters := []*counter{}
	for i := range 4 {
		s, err := store.NewRedis(&policy.Store{Hosts: []string{delayed(t, server.Addr, 100*time.Millisecond)}}, nil)
		must(t, err)
		defer s.Close()
		c := startCounter(t, s, true, fmt.Sprint("instance ", i), spec, lease.Share)
		counters = append(counters, c)
	}
	for range 5 { // they know the store, and each other
		for _, c := range counters {
			c.take("site.test", time.Second)
		}
	}
	begin := time.Now().Truncate(width).Add(width)
	<-time.After(time.Until(begin))
	end := begin.Add(windows * width)
	for _, c := range counters {
		for range 5 {
			all.Go(func() {
				for time.Now().Before(end) {
					if ok, _ := c.take("site.test", time.Until(end)); ok && time.Now().Before(end) {
						total.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	for _, c := range counters {
		c.stop()
		lent += c.lent["share"]
	}
	t.Logf("%d of %d went, %d of them lent", total.Load(), windows*amount, lent)
	// On a machine that is so slow that an answer takes a second some may be lent.
	if total.Load() > windows*amount+lent || total.Load() < amount {
		t.Errorf("%d went, %d are allowed", total.Load(), windows*amount)
	}
}
