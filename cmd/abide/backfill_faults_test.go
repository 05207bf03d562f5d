//go:build linux

package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/abide-proxy/abide/jobs/jobstest"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/store/redistest"
)

// resolved is a configuration in which api.test is a server of a test.
func resolved(server *httptest.Server) string {
	return fmt.Sprintf("data: data\negress: {resolve: {\"api.test:80\": %q}}\nretry: {base: 1ms, max: 20ms}\nbreaker: {failures: 0}\nsites: [{host: api.test, learn: false}]\n",
		strings.TrimPrefix(server.URL, "http://"))
}

// paginateText is a pagination as a job file has it.
func paginateText(p jobfile.Pagination) string {
	text := "style: " + p.Style
	for _, one := range [][2]string{{"param", p.Param}, {"next", p.Next}, {"size_param", p.SizeParam}, {"total", p.Total}} {
		if one[1] != "" && (one[0] != "total" || p.Style != jobfile.LinkPages) { // a Link header says no total
			text += ", " + one[0] + ": " + one[1]
		}
	}
	if p.Size > 0 {
		text += fmt.Sprint(", size: ", p.Size)
	}
	return "{" + text + "}"
}

// count is a number in a file of records.
func count(t *testing.T, file, query string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Each style of pagination, against servers whose pages end in a way that hides records: such a
// unit is incomplete, and the command fails and says so.
func TestABackfillNeverCallsAWalkCompleteThatWasCutShort(t *testing.T) {
	t.Parallel()
	for _, style := range []string{jobfile.OffsetPages, jobfile.PagePages, jobfile.CursorPages, jobfile.LinkPages, jobfile.NextPages} {
		for _, end := range []jobstest.End{jobstest.Honest, jobstest.Repeats, jobstest.Shrinks, jobstest.OtherHost, jobstest.TotalTooHigh} {
			byURL := style == jobfile.LinkPages || style == jobfile.NextPages
			counted := style == jobfile.OffsetPages || style == jobfile.PagePages
			if end == jobstest.OtherHost && !byURL || end == jobstest.Shrinks && !counted || end == jobstest.TotalTooHigh && style == jobfile.LinkPages {
				continue
			}
			t.Run(strings.ReplaceAll(style+" "+string(end), " ", "_"), func(t *testing.T) {
				var elsewhere atomic.Int64
				other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
				defer other.Close()
				o := jobstest.New(jobstest.Options{Style: style, Records: 35, Size: 10, End: end, Total: true, Elsewhere: other.URL})
				server := httptest.NewServer(o)
				defer server.Close()
				dir := t.TempDir()
				write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
				write(t, filepath.Join(dir, "job.yaml"), fmt.Sprintf("name: orders\nrequest: \"http://api.test%s\"\nitems: [u]\npaginate: %s\nrecords: data\nid: id\noutput: orders.db\n",
					o.Path("{item}"), paginateText(o.Pagination())))
				d := launch(t, dir, nil, "backfill", "--quiet", "job.yaml")
				code, file := d.status(), filepath.Join(dir, "orders.db")
				records, done := count(t, file, "SELECT count(*) FROM orders"), count(t, file, "SELECT count(*) FROM orders_units WHERE state = 'done'")
				if end == jobstest.Honest {
					if code != 0 || records != 35 || done != 1 {
						t.Errorf("it ended with %d, %d records and %d units done\n%s", code, records, done, d.log.String())
					}
					return
				}
				if code != exitFailed || done != 0 || !strings.Contains(d.log.String(), "incomplete") {
					t.Errorf("it ended with %d and %d units done\n%s", code, done, d.log.String())
				}
				if n := elsewhere.Load(); n > 0 {
					t.Errorf("%d requests went to another host", n)
				}
			})
		}
	}
}

// The file of records cannot grow, as on a full disk. The backfill waits, and goes on when there
// is room.
func TestABackfillWaitsForRoomOnAFullDisk(t *testing.T) {
	t.Parallel()
	const units = 300
	begin := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-begin
		fmt.Fprintf(w, `{"id":%q,"text":%q}`, r.URL.Path, strings.Repeat("x", 5000))
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	write(t, filepath.Join(dir, "job.yaml"), "name: orders\nrequest: http://api.test/{date}\nrange: {from: 2024-01-01, to: 2024-10-26}\nid: id\noutput: orders.db\n")
	d := launch(t, dir, nil, "backfill", "--quiet", "job.yaml")
	d.limitFiles(300 << 10)
	close(begin)
	d.log.await(t, "waits for its output.*full|waits for its output.*disk")
	d.limitFiles(unix.RLIM_INFINITY)
	if code := d.status(); code != 0 {
		t.Fatalf("it ended with %d\n%s", code, d.log.String())
	}
	file := filepath.Join(dir, "orders.db")
	if n, done := count(t, file, "SELECT count(*) FROM orders"), count(t, file, "SELECT count(*) FROM orders_units WHERE state = 'done'"); n != units || done != units {
		t.Errorf("%d records and %d units of %d", n, done, units)
	}
}

// limitFiles limits the size of each file that the process writes.
func (d *daemon) limitFiles(bytes uint64) {
	d.t.Helper()
	if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
		d.t.Fatal(err)
	}
}

// Two processes write to one SQLite file: each unit is fetched by one of them.
func TestTwoProcessesShareABackfillOfOneFile(t *testing.T) {
	t.Parallel()
	origin, dir := newYearOrigin(t), t.TempDir()
	file := filepath.Join(dir, "orders.db")
	var both []*daemon
	for _, name := range []string{"a", "b"} {
		server := filepath.Join(dir, name)
		write(t, filepath.Join(server, "abide.yaml"), origin.config())
		write(t, filepath.Join(server, "orders.yaml"), yearJob(file))
		both = append(both, launch(t, server, nil, "backfill", "--quiet", "orders.yaml"))
	}
	for _, d := range both {
		if code := d.status(); code != 0 {
			t.Fatalf("a process ended with %d\n%s", code, d.log.String())
		}
	}
	repeated, pages := origin.repeats()
	if pages != yearUnits*yearPages || repeated > 0 {
		t.Errorf("%d of %d pages were given, and %d given again", pages, yearUnits*yearPages, repeated)
	}
	if n := count(t, file, "SELECT count(DISTINCT id) FROM orders"); n != yearUnits*yearPages*yearRecords {
		t.Errorf("%d records", n)
	}
}

// Two backfills of different jobs, with one limit in a Redis that they share.
func TestBackfillsShareALimitByRedis(t *testing.T) {
	t.Parallel()
	const each, amount = 40, 20
	redis := redistest.Start(t)
	var mu sync.Mutex
	windows := map[int64]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		windows[time.Now().Unix()/2]++
		mu.Unlock()
		fmt.Fprintf(w, `{"id":%q}`, r.URL.Path)
	}))
	defer server.Close()
	var both []*daemon
	for _, name := range []string{"a", "b"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(`
data: data
store: redis://%s
egress: {resolve: {"api.test:80": %q}}
sites: [{host: api.test, learn: false, limits: [{requests: %d, per: 2s, as: fixed}]}]
`, redis.Addr, strings.TrimPrefix(server.URL, "http://"), amount))
		write(t, filepath.Join(dir, "job.yaml"), fmt.Sprintf("name: %s\nrequest: http://api.test/%s/{date}\nrange: {from: 2024-01-01, to: 2024-02-09}\nid: id\noutput: orders.db\n", name, name))
		both = append(both, launch(t, dir, nil, "backfill", "--quiet", "job.yaml"))
	}
	for _, d := range both {
		if code := d.status(); code != 0 {
			t.Fatalf("it ended with %d\n%s", code, d.log.String())
		}
	}
	all := 0
	for window, n := range windows {
		// What was sent at the end of a window may arrive in the next one.
		if all += n; n > amount+2*4 {
			t.Errorf("%d requests came in the 2 s from %d on, where %d are allowed", n, 2*window, amount)
		}
	}
	if all != 2*each || len(windows) < 2*each/amount {
		t.Errorf("%d requests came in %d windows", all, len(windows))
	}
}
