//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store/redistest"
)

// relay is between abide and its store. Those who come while it is moved are told that
// everything is elsewhere, where nobody is.
type relay struct {
	net.Listener
	to    string
	moved atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]bool
	all   sync.WaitGroup
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to, conns: map[net.Conn]bool{}}
	r.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns[c] = true
			r.mu.Unlock()
			r.all.Go(func() {
				defer c.Close()
				if r.moved.Load() {
					answerMoved(c)
				} else {
					r.pass(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.cut()
		r.all.Wait()
	})
	return r
}

func (r *relay) pass(c net.Conn) {
	there, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, there)
		c.Close()
	})
	_, _ = io.Copy(there, c)
	there.Close()
	back.Wait()
}

// cut ends all connections that there are.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
	clear(r.conns)
}

// answerMoved answers every command like that.
func answerMoved(c net.Conn) {
	in := bufio.NewReader(c)
	number := func(mark byte) int {
		line, err := in.ReadString('\n')
		if err != nil || line[0] != mark {
			return -1
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		return n
	}
	for {
		words := number('*')
		if words < 0 {
			return
		}
		for range words {
			if _, err := in.Discard(number('$') + 2); err != nil {
				return
			}
		}
		fmt.Fprint(c, "-MOVED 3999 127.0.0.1:1\r\n")
	}
}

// What is wrong with a store, and how that ends.
var storeTroubles = map[string]struct {
	begin, end func(*redistest.Server, *relay)
}{
	"down": {
		func(s *redistest.Server, _ *relay) { s.Kill() },
		func(s *redistest.Server, _ *relay) { s.Restart(); storeUser(s, "secret") },
	},
	"slow": {
		func(s *redistest.Server, _ *relay) {
			s.Do("CLIENT", "PAUSE", int(storeTrouble/time.Millisecond), "ALL")
		},
		func(*redistest.Server, *relay) {},
	},
	"MOVED": {
		func(_ *redistest.Server, r *relay) { r.moved.Store(true); r.cut() },
		func(_ *redistest.Server, r *relay) { r.moved.Store(false); r.cut() },
	},
	"of the wrong type": {
		func(s *redistest.Server, _ *relay) { retype(s, true) },
		func(s *redistest.Server, _ *relay) { retype(s, false) },
	},
	"out of memory": {
		func(s *redistest.Server, _ *relay) { s.Do("CONFIG", "SET", "maxmemory", 1) },
		func(s *redistest.Server, _ *relay) { s.Do("CONFIG", "SET", "maxmemory", 0) },
	},
	"refusing the password": {
		func(s *redistest.Server, r *relay) { storeUser(s, "another"); r.cut() },
		func(s *redistest.Server, _ *relay) { storeUser(s, "secret") },
	},
	"a replica now": {
		func(s *redistest.Server, _ *relay) { s.Do("REPLICAOF", "127.0.0.1", 1) },
		func(s *redistest.Server, _ *relay) { s.Do("REPLICAOF", "NO", "ONE") },
	},
}

func storeUser(s *redistest.Server, secret string) {
	s.Do("ACL", "SETUSER", "abide", "on", "resetpass", ">"+secret, "~*", "&*", "+@all")
}

// retype makes every budget something else, or removes what was made.
func retype(s *redistest.Server, wrong bool) {
	keys, _ := s.Do("KEYS", "*.test}*").([]any)
	for _, key := range keys {
		s.Do("DEL", key)
		if wrong {
			s.Do("SET", key, "x")
		}
	}
}

// storeAmount is what each site gives in a day, storeTrouble how long the store is away,
// and storeWait how long a request waits at most.
const (
	storeAmount  = 600
	storeTrouble = 1200 * time.Millisecond
	storeWait    = 400 * time.Millisecond
)

// TestAStoreInTroubleMakesNothingUnlimitedAndNobodyWait has two real processes share
// their limits by a real Redis that is in trouble under load for a while.
func TestAStoreInTroubleMakesNothingUnlimitedAndNobodyWait(t *testing.T) {
	for name, trouble := range storeTroubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, origin := redistest.Start(t), newCounting(t)
			storeUser(server, "secret")
			r := newRelay(t, server.Addr)
			day := fmt.Sprintf("limits: [{requests: %d, per: day, timezone: %s}]", storeAmount, midday())
			config := fmt.Sprintf(`
data: data
store: redis://abide:secret@%s
queue: {wait: %v}
egress: {resolve: {"strict.test:80": %q, "share.test:80": %q}}
sites:
  - {host: strict.test, learn: false, outage: strict, %s}
  - {host: share.test, learn: false, outage: share, %s}
`, r.Addr(), storeWait, origin.address, origin.address, day, day)
			var daemons []*daemon
			for range 2 {
				dir := t.TempDir()
				write(t, filepath.Join(dir, "abide.yaml"), config)
				daemons = append(daemons, serveIn(t, dir, nil))
			}
			for _, d := range daemons {
				keepsTrying(t, "they know of each other", func() bool {
					_, text := d.ask("/api/v1/status")
					return strings.Count(text, `"seen"`) == 2
				})
			}
			ctx, stop := context.WithCancel(t.Context())
			var load sync.WaitGroup
			var longest atomic.Int64
			defer load.Wait()
			defer stop()
			for _, host := range []string{"strict.test", "share.test"} { // nothing strict goes before the store has settled
				for _, d := range daemons {
					for range 3 {
						load.Go(func() { asks(ctx, d.proxy, host, &longest) })
					}
				}
				keepsTrying(t, host+" is at work", func() bool { return origin.count(host) > 40 })
			}
			trouble.begin(server, r)
			before := origin.count("share.test")
			await(storeTrouble)
			during := origin.count("share.test") - before
			trouble.end(server, r)
			for _, d := range daemons {
				keepsTrying(t, "it is well again", func() bool {
					_, text := d.ask("/readyz")
					return strings.Contains(text, "store: ok")
				})
			}
			await(storeTrouble / 2)
			stop()
			load.Wait()
			strict, share := origin.count("strict.test"), origin.count("share.test")
			t.Logf("strict %d, share %d of %d, %d of them in the meantime; the longest answer took %v", strict, share, storeAmount, during, time.Duration(longest.Load()))
			if strict > storeAmount {
				t.Errorf("strict: %d went of %d", strict, storeAmount)
			}
			if share > storeAmount*3/2 { // each its part of what it knew to be left
				t.Errorf("share: %d went of %d", share, storeAmount)
			}
			// What somebody has overwritten is lost: nothing of it goes until it has settled.
			if during == 0 && before < storeAmount*9/10 && name != "of the wrong type" {
				t.Errorf("nothing went in the meantime, after %d", before)
			}
			if took := time.Duration(longest.Load()); took > storeWait+5*time.Second { // of a machine that is busy
				t.Errorf("an answer took %v", took)
			}
			for _, d := range daemons {
				d.signal(syscall.SIGTERM)
				if status := d.status(); status != 0 {
					t.Errorf("it ended with %d", status)
				}
				if strings.Contains(d.log.String(), "secret") {
					t.Errorf("the log has the password: %s", d.log)
				}
			}
		})
	}
}

// TestWhatTheStoreLosesIsSaid: a budget that somebody overwrites and a FLUSHALL stop nothing
// for good, and the log, /readyz, the status and the metrics say what happened.
func TestWhatTheStoreLosesIsSaid(t *testing.T) {
	t.Parallel()
	server, origin := redistest.Start(t), newCounting(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(`
data: data
store: redis://%s
egress: {resolve: {"strict.test:80": %q}}
sites: [{host: strict.test, learn: false, outage: strict, limits: [{requests: 600, per: day, timezone: %s}]}]
`, server.Addr, origin.address, midday()))
	d := serveIn(t, dir, nil)
	get := func() {
		t.Helper()
		if status, text := d.get("http://strict.test/"); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
	get()
	retype(server, true)
	for range 60 { // more than is leased
		get()
	}
	keepsTrying(t, "it is counted", func() bool {
		_, text := d.ask("/metrics")
		return strings.Contains(text, `abide_store_losses_total{what="site"} 1`)
	})
	flushes := 0
	keepsTrying(t, "/readyz says so", func() bool {
		status, text := d.ask("/readyz")
		if status == 200 && strings.Contains(text, "store loss: degraded (the store has lost what was written down at ") && strings.Contains(text, "nothing of that is granted until ") {
			return true
		}
		if _, text := d.ask("/metrics"); strings.Contains(text, fmt.Sprintf(`abide_store_losses_total{what="all"} %d`, flushes)) {
			server.Do("FLUSHALL") // the first one, or the last has settled before anybody looked
			flushes++
		}
		return false
	})
	get()
	keepsTrying(t, "it has settled", func() bool {
		_, text := d.ask("/readyz")
		return strings.Contains(text, "store: ok") && !strings.Contains(text, "loss")
	})
	_, metrics := d.ask("/metrics")
	says(t, metrics, fmt.Sprintf(`abide_store_losses_total{what="all"} %d`, flushes), "abide_store_outages_total 0")
	_, status := d.ask("/api/v1/status")
	says(t, status, fmt.Sprintf(`"loss":{"all":%d,"sites":1,`, flushes))
	said := launch(t, dir, nil, "status", "--admin", d.admin)
	said.status()
	says(t, said.out.String(), fmt.Sprintf("the store has lost budgets %d times", flushes+1))
	d.signal(syscall.SIGTERM)
	d.status()
	says(t, d.log.String(), "the store has lost budgets of strict.test (flushed, evicted, removed or overwritten): what is held is said again", "it was flushed, was started again, or is another one")
}

// TestAStoreThatEvictsIsWarnedOf in the log, /readyz, the status and the API.
func TestAStoreThatEvictsIsWarnedOf(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: data\nstore: redis://"+server.Addr+"\n")
	d := serveIn(t, dir, nil)
	keepsTrying(t, "/readyz says so", func() bool {
		status, text := d.ask("/readyz")
		return status == 200 && strings.Contains(text, "store settings: degraded (redis at "+server.Addr+": its maxmemory-policy is allkeys-lru")
	})
	said := launch(t, dir, nil, "status", "--admin", d.admin)
	said.status()
	says(t, said.out.String(), "warning: redis at "+server.Addr+": its maxmemory-policy is allkeys-lru")
	d.signal(syscall.SIGTERM)
	d.status()
	says(t, d.log.String(), "the store can be used, but: redis at "+server.Addr, "set it to noeviction")
}

// await is as long as that.
func await(d time.Duration) { <-time.After(d) }

// asks asks again and again, and notes how long the longest answer took.
func asks(ctx context.Context, proxy, host string, longest *atomic.Int64) {
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: patience}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		answer, err := c.Get("http://" + host + "/")
		took := int64(time.Since(began))
		if err == nil {
			answer.Body.Close()
		} else if ctx.Err() == nil {
			took = int64(patience)
		}
		for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
		}
	}
}
