//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What is asked of abide, and how it is limited.
const (
	killLarge = 100_000 // a day
	killSmall = 60      // a day
	killRoll  = 30      // in every interval of killWindow
	// killClients ask at once for each of them. So many may have been counted and not
	// sent when abide is killed.
	killClients = 4
	// killLease is the part of a limit that a kill may lose, and one more at least.
	killLease = 200
)

// killWindow is one that many kills fall into. What is sent may arrive later by killDelay
// on a machine that is busy, so that is by how much less an origin has to measure.
const (
	killWindow = 4 * time.Second
	killDelay  = time.Second
)

// counting is an origin that notes when what was asked of it.
type counting struct {
	address string
	mu      sync.Mutex
	at      map[string][]time.Time // :: host →
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	c := &counting{at: map[string][]time.Time{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.address = l.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		c.mu.Lock()
		c.at[r.Host] = append(c.at[r.Host], now)
		c.mu.Unlock()
		fmt.Fprint(w, "counted")
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return c
}

func (c *counting) count(host string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.at[host])
}

// most is the largest number in any interval of a length.
func (c *counting) most(host string, d time.Duration) (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.SortedFunc(slices.Values(c.at[host]), time.Time.Compare)
	first := 0
	for i, at := range all {
		for at.Sub(all[first]) >= d {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// midday is a time zone in which it is around noon, so that no day ends meanwhile.
func midday() string {
	switch by := 12 - time.Now().UTC().Hour(); {
	case by > 0: // its signs are the other way round
		return fmt.Sprintf("Etc/GMT-%d", by)
	case by < 0:
		return fmt.Sprintf("Etc/GMT+%d", -by)
	}
	return "UTC"
}

func killConfig(c *counting) string {
	day := "per: day, timezone: " + midday()
	return fmt.Sprintf(`
data: data
egress: {resolve: {"large.test:80": %q, "small.test:80": %q, "roll.test:80": %q}}
sites:
  - {host: large.test, learn: false, limits: [{requests: %d, %s}]}
  - {host: small.test, learn: false, limits: [{requests: %d, %s}]}
  - {host: roll.test, learn: false, limits: [{requests: %d, per: %v}]}
`, c.address, c.address, c.address, killLarge, day, killSmall, day, killRoll, killWindow)
}

// crowd asks for everything all the time, until its proxy dies.
type crowd struct {
	answered [3]atomic.Int64 // of large, small and roll
	all      sync.WaitGroup
}

var killHosts = [3]string{"large.test", "small.test", "roll.test"}

func (k *crowd) begin(proxy string) {
	for i, host := range killHosts {
		for range killClients {
			k.all.Go(func() {
				transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}
				defer transport.CloseIdleConnections()
				c := &http.Client{Transport: transport, Timeout: patience}
				for {
					answer, err := c.Get("http://" + host + "/")
					if err != nil {
						return // it is dead
					}
					answer.Body.Close()
					if answer.StatusCode == http.StatusOK {
						k.answered[i].Add(1)
					}
				}
			})
		}
	}
}

// left is what abide believes to be left of the only limit of a host.
func left(t *testing.T, d *daemon, host string) int {
	t.Helper()
	status, text := d.ask("/api/v1/explain?url=" + url.QueryEscape("http://"+host+"/"))
	var e struct {
		Limits []struct {
			Left int `json:"left"`
		} `json:"limits"`
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil || status != 200 || len(e.Limits) != 1 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	return e.Limits[0].Left
}

// TestKilledAtAnyMomentItNeitherForgetsNorExceeds kills abide with -9 under load,
// again and again on the same files. ABIDE_KILLS says how often.
func TestKilledAtAnyMomentItNeitherForgetsNorExceeds(t *testing.T) {
	kills, lines := 24, 4
	if text := os.Getenv("ABIDE_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for line := range lines {
		t.Run(fmt.Sprint(line), func(t *testing.T) {
			t.Parallel()
			killed(t, kills/lines)
		})
	}
}

// hurried returns the status of a GET that does not wait for a limit.
func (d *daemon) hurried(at string) int {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, at, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Abide-Max-Wait", "1ms")
	answer, err := d.client(nil).Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

func killed(t *testing.T, kills int) {
	dir, origin := t.TempDir(), newCounting(t)
	write(t, filepath.Join(dir, "abide.yaml"), killConfig(origin))
	var k crowd
	starts := make([]time.Duration, 0, kills)
	for range kills {
		began := time.Now()
		d := serveIn(t, dir, nil)
		starts = append(starts, time.Since(began))
		k.begin(d.proxy)
		moment := time.NewTimer(time.Duration(rand.Int64N(int64(400 * time.Millisecond))))
		select {
		case <-moment.C:
		case <-d.ended:
			t.Fatalf("it ended by itself")
		}
		d.signal(syscall.SIGKILL)
		<-d.ended
		k.all.Wait()
		if strings.Contains(d.log.String(), "set aside") || strings.Contains(d.log.String(), "was moved to") {
			t.Fatalf("the file was set aside: %s", d.log)
		}
	}
	// After the last one everything that is left may go, and no more.
	d := serveIn(t, dir, nil)
	if status, text := d.get("http://large.test/"); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for range killSmall + 1 { // a slow machine has not used it up
		if d.hurried("http://small.test/") != http.StatusOK {
			break
		}
	}
	large, small := origin.count("large.test"), origin.count("small.test")
	believed := killLarge - left(t, d, "large.test")
	slices.Sort(starts)
	t.Logf("%d kills: large %d at the origin, %d answered, %d counted: lost %.1f a kill, %.2f %% of the quota in all; small %d; rolling %d, at most %d in %v; starts %v, at most %v",
		kills, large, k.answered[0].Load(), believed, float64(believed-large)/float64(kills), 100*float64(believed-large)/killLarge, small,
		origin.count("roll.test"), origin.most("roll.test", killWindow), killWindow, starts[len(starts)/2], starts[len(starts)-1])
	if large == 0 || believed < large {
		t.Errorf("%d requests have arrived and %d are counted", large, believed)
	}
	if most := kills * (killLarge/killLease + 1 + killClients); believed-large > most {
		t.Errorf("%d are lost, more than %d", believed-large, most)
	}
	if most := kills * (killSmall/killLease + 2 + killClients); small > killSmall || small < killSmall-most {
		t.Errorf("%d went of %d", small, killSmall)
	}
	if most := origin.most("roll.test", killWindow-killDelay); most > killRoll {
		t.Errorf("%d in an interval that allows %d", most, killRoll)
	}
	for i, host := range killHosts {
		if got, came := k.answered[i].Load(), int64(origin.count(host)); got > came {
			t.Errorf("%s: %d were answered and %d have arrived", host, got, came)
		}
	}
	d.signal(syscall.SIGTERM)
	if status := d.status(); status != 0 {
		t.Errorf("it ended with %d", status)
	}
}
