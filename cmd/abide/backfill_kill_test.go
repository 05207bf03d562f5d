//go:build unix

package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What the origin of a year has.
const (
	yearUnits   = 365
	yearPages   = 3 // of a day
	yearRecords = 7 // of a page
	yearWorkers = 4
)

// yearOrigin has the orders of a year, by day and cursor. Half of its answers are failures,
// refusals or broken off, and some are slow.
type yearOrigin struct {
	address string
	mu      sync.Mutex
	dice    *rand.Rand
	given   map[string]int // :: day and page → how often it was given whole
	next    int            // requests until reached is closed
	reached chan struct{}

	quota   int   // requests in each second of the clock; 0: no quota
	second  int64 // the present one
	used    int   // requests in it
	refused int   // because of the quota
}

func newYearOrigin(t *testing.T) *yearOrigin {
	t.Helper()
	o := &yearOrigin{dice: rand.New(rand.NewPCG(1, 2)), given: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.address = l.Addr().String()
	server := &http.Server{Handler: o}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return o
}

// after returns a channel that is closed when so many requests have come from now on.
func (o *yearOrigin) after(requests int) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next, o.reached = requests, make(chan struct{})
	return o.reached
}

func (o *yearOrigin) throw(sides int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next--; o.next == 0 {
		close(o.reached)
	}
	return o.dice.IntN(sides)
}

// isOver counts a request against the quota.
func (o *yearOrigin) isOver() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now().Unix(); now != o.second {
		o.second, o.used = now, 0
	}
	o.used++
	over := o.quota > 0 && o.used > o.quota
	if over {
		o.refused++
	}
	return over
}

func (o *yearOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if o.isOver() {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(429)
		return
	}
	switch o.throw(12) {
	case 0, 1:
		w.WriteHeader(500)
		return
	case 2:
		w.WriteHeader(503)
		return
	case 3, 4:
		panic(http.ErrAbortHandler)
	case 5:
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(429)
		return
	case 6:
		select {
		case <-time.After(50 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	day := r.URL.Query().Get("day")
	page, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"data":[`)
	for i := range yearRecords {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, `{"id":"%s/%d/%d","day":%q}`, day, page, i, day)
	}
	if page+1 < yearPages {
		fmt.Fprintf(w, `],"next":"%d"}`, page+1)
	} else {
		fmt.Fprint(w, `],"next":null}`)
	}
	o.mu.Lock()
	o.given[fmt.Sprint(day, "/", page)]++
	o.mu.Unlock()
}

// repeats is how often a page was given that had been given before, and of how many pages.
func (o *yearOrigin) repeats() (repeated, pages int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.given {
		repeated += n - 1
	}
	return repeated, len(o.given)
}

// killsOf is how often a test kills abide: fewer than ABIDE_KILLS, if that is not set.
func killsOf(t *testing.T, fewer int) int {
	t.Helper()
	text := os.Getenv("ABIDE_KILLS")
	if text == "" {
		return fewer
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A year of days is fetched from a server that fails half of the time, and the backfill is
// killed again and again. ABIDE_KILLS says how often.
func TestABackfillThatIsKilledLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	aYearIsKilled(t, 0)
}

// The same under a quota, which is a second long for a day. What was spent of the quota outlives
// each kill, so the server hardly refuses.
func TestAKilledBackfillKeepsItsQuota(t *testing.T) {
	t.Parallel()
	aYearIsKilled(t, 400)
}

func aYearIsKilled(t *testing.T, quota int) {
	t.Helper()
	kills, dir, origin := killsOf(t, 10), t.TempDir(), newYearOrigin(t)
	origin.quota = quota
	write(t, filepath.Join(dir, "abide.yaml"), origin.config())
	write(t, filepath.Join(dir, "orders.yaml"), yearJob("orders.db"))
	killed := 0
	for {
		d := launch(t, dir, nil, "backfill", "--quiet", "orders.yaml")
		if killed < kills {
			select {
			case <-origin.after(1 + rand.IntN(16)):
				d.signal(syscall.SIGKILL)
				killed++
			case <-d.ended:
			}
			<-d.ended
			if d.cmd.ProcessState.ExitCode() != 0 {
				continue
			}
		}
		if status := d.status(); status != 0 {
			t.Fatalf("after %d kills it ended with %d", killed, status)
		}
		break
	}
	repeated, pages := origin.repeats()
	t.Logf("%d kills, %d pages, %d given again, %d refused by the quota", killed, pages, repeated, origin.refused)
	if pages != yearUnits*yearPages || repeated > killed*yearWorkers {
		t.Errorf("%d of %d pages were given, and %d given again after %d kills", pages, yearUnits*yearPages, repeated, killed)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "orders.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rows, ids, days, done int
	if err := db.QueryRow(`SELECT count(*), count(DISTINCT id), count(DISTINCT day) FROM orders`).Scan(&rows, &ids, &days); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(`SELECT count(*) FROM orders_units WHERE state = 'done'`).Scan(&done); err != nil {
		t.Fatal(err)
	}
	if want := yearUnits * yearPages * yearRecords; rows != want || ids != want || days != yearUnits || done != yearUnits {
		t.Errorf("%d rows, %d IDs, %d days, %d units done; want %d records of %d days", rows, ids, days, done, want, yearUnits)
	}
}
