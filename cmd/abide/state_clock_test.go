//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// What is asked for, and in what windows.
const (
	clockAmount = 20
	clockWindow = 2 * time.Second
)

var clockLimits = map[string]limit.Spec{
	"rolling.test":  {As: limit.Rolling, Amount: clockAmount, Window: clockWindow},
	"fixed.test":    {As: limit.Fixed, Amount: clockAmount, Window: clockWindow},
	"firstuse.test": {As: limit.FirstUse, Amount: clockAmount, Window: clockWindow},
}

// TestAStateOfAnotherClockIsNeitherABurstNorAStall: what was used when the clock was
// ahead counts as used now, for a window at most; what was used when it was behind is
// over, as far as anybody knows. In one process windows go by a clock that nobody sets,
// which the tests of the packages limit and proxy look at.
func TestAStateOfAnotherClockIsNeitherABurstNorAStall(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, 24 * time.Hour, -time.Hour, -24 * time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
			dir, origin := t.TempDir(), newCounting(t)
			place, err := time.LoadLocation(midday())
			if err != nil {
				t.Fatal(err)
			}
			specs, resolve, sites := map[string]limit.Spec{}, "", ""
			for host, spec := range clockLimits {
				specs[host] = spec
				resolve += fmt.Sprintf("%q: %q, ", host+":80", origin.address)
				sites += fmt.Sprintf("\n  - {host: %s, learn: false, limits: [{requests: %d, per: %v, as: %s}]}", host, clockAmount, clockWindow, spec.As)
			}
			specs["day.test"] = limit.Spec{As: limit.Quota, Amount: clockAmount, Period: limit.Day, Location: place}
			write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(`
data: data
egress: {resolve: {%s"day.test:80": %q}}
sites:%s
  - {host: day.test, learn: false, limits: [{requests: %d, per: day, timezone: %s}]}
`, resolve, origin.address, sites, clockAmount, midday()))
			d := serveIn(t, dir, nil)
			for host := range specs {
				for range clockAmount {
					if status, text := d.get("http://" + host + "/"); status != 200 {
						t.Fatal(status, text)
					}
				}
			}
			d.signal(syscall.SIGTERM)
			d.status()
			usedAt(t, stateOf(dir), time.Now().Add(ahead), specs)

			d = serveIn(t, dir, nil)
			began := time.Now()
			before := map[string]int{}
			for host := range specs {
				before[host] = origin.count(host)
			}
			wanted := 0
			if ahead < -12*time.Hour {
				wanted = clockAmount // that was yesterday
			}
			if got := left(t, d, "day.test"); got != wanted {
				t.Errorf("%d are left of the day, not %d", got, wanted)
			}
			ctx, stop := context.WithCancel(t.Context())
			var load sync.WaitGroup
			var longest atomic.Int64
			for host := range clockLimits {
				for range 3 {
					load.Go(func() { asks(ctx, d.proxy, host, &longest) })
				}
			}
			await(2*clockWindow + 2*time.Second)
			stop()
			load.Wait()
			for host := range clockLimits {
				origin.mu.Lock()
				since := origin.at[host][before[host]:]
				origin.mu.Unlock()
				if len(since) == 0 {
					t.Errorf("%s: nothing went", host)
					continue
				}
				longest := clockWindow
				if clockLimits[host].As == limit.Fixed { // the one that was open becomes longer, to end at an edge
					longest *= 2
				}
				if stalled := since[0].Sub(began); stalled > longest+2*time.Second { // on a machine that is busy
					t.Errorf("%s: nothing went for %v", host, stalled)
				}
				first := 0 // within what is surely one window
				for _, at := range since {
					if at.Sub(since[0]) < clockWindow/2 {
						first++
					}
				}
				if most := clockAmount * map[bool]int{true: 1, false: 2}[host == "rolling.test"]; first > most {
					t.Errorf("%s: %d went within a window", host, first)
				}
			}
			d.signal(syscall.SIGTERM)
			if status := d.status(); status != 0 {
				t.Errorf("it ended with %d", status)
			}
		})
	}
}

// usedAt makes that all of every limit was used at a time.
func usedAt(t *testing.T, path string, at time.Time, specs map[string]limit.Spec) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for host, spec := range specs {
		m, err := limit.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		m.Take(at.Round(0), clockAmount)
		done, err := db.Exec("UPDATE counts SET state = ?, ahead = 0, at = ?, sum = NULL WHERE site = ?", m.State(), at.UnixMicro(), host)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := done.RowsAffected(); n != 1 || err != nil {
			t.Fatalf("%s: %d rows, %v", host, n, err)
		}
	}
}
