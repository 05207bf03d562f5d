//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

// Each run asks for what is newer than the newest record, less the lag, and replaces what has changed.
func TestSinceFetchesWhatIsNewerThanTheNewestRecord(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	updated := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		since := r.URL.Query().Get("since")
		asked = append(asked, since)
		var list []string
		for id, at := range updated {
			if at >= since {
				list = append(list, fmt.Sprintf(`{"id": %q, "updated_at": %q}`, id, at))
			}
		}
		_, _ = io.WriteString(w, "["+strings.Join(list, ",")+"]")
	}))
	defer server.Close()
	postgres, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	for _, output := range []string{"issues.db", postgres.Database(t)} {
		dir := t.TempDir()
		mu.Lock()
		asked, updated = nil, map[string]string{"a": "2024-01-05T10:00:00Z", "b": "2024-01-07T10:00:00Z"}
		mu.Unlock()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		write(t, filepath.Join(dir, "issues.yaml"), "name: issues\nrequest: http://api.test/?since={since}\nid: id\ncolumns: [updated_at]\nsince: {column: updated_at, from: 2024-01-01, lag: 1h}\noutput: "+output+"\n")
		run := func(records string, args ...string) {
			t.Helper()
			d := launch(t, dir, nil, append(args, "issues.yaml")...)
			if code := d.status(); code != 0 || strings.Count(d.out.String(), "\"unit\"") != strings.Count(records, " ")+1 && records != "" {
				t.Errorf("%q ended with %d: %s%s", args, code, d.out, d.log)
			}
		}
		job, _ := os.ReadFile(filepath.Join(dir, "issues.yaml"))
		for wrong, want := range map[string]string{"column: updated_at": "names no column of columns", "since={since}": "has none of the placeholders {since}"} {
			write(t, filepath.Join(dir, "wrong.yaml"), strings.Replace(string(job), wrong, wrong[:7]+"x", 1))
			if d := launch(t, dir, nil, "backfill", "wrong.yaml"); d.status() == 0 || !strings.Contains(d.log.String(), want) {
				t.Errorf("%s: %s", wrong, d.log)
			}
		}
		run("", "backfill", "--dry-run")
		run("", "backfill", "--quiet")
		run("a b", "export")
		mu.Lock()
		updated["a"], updated["c"] = "2024-01-07T10:30:00Z", "2024-01-07T11:00:00Z"
		mu.Unlock()
		run("", "backfill", "--quiet")
		run("a b c", "export")
		mu.Lock()
		updated["d"] = "9999-01-01T00:00:00Z" // is wrong, and hides nothing
		mu.Unlock()
		run("", "backfill", "--quiet")
		run("", "backfill", "--quiet")
		run("", "backfill", "--quiet", "--again") // from the beginning
		mu.Lock()
		if want := []string{"2024-01-01", "2024-01-07T09:00:00Z", "2024-01-07T10:00:00Z"}; !slices.Equal(asked, append(want, want[2], want[0])) {
			t.Errorf("%s: it asked since %q", output, asked)
		}
		mu.Unlock()
	}
}

// Each item has a time or number of its own, numbers are compared as numbers, and what a unit that was broken off has not
// fetched is not passed over.
func TestSinceIsOfEachItem(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	newest := map[string]int{"a": 9, "b": 3}
	broken := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		item := r.URL.Path[1:]
		asked = append(asked, item+" "+r.URL.Query().Get("since"))
		if item == broken {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `[{"id": "%s-%d", "seq": %[2]d}, {"id": "%[1]s-1", "seq": 1}]`, item, newest[item])
	}))
	defer server.Close()
	postgres, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	for _, output := range []string{"events.db", postgres.Database(t)} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		write(t, filepath.Join(dir, "events.yaml"), "name: events\nrequest: http://api.test/{item}?since={since}\nitems: [a, b]\nid: id\ncolumns: [seq]\nsince: {column: seq, from: 0, lag: 2}\nworkers: 1\noutput: "+output+"\n")
		run := func(status int, want ...string) {
			t.Helper()
			mu.Lock()
			asked = nil
			mu.Unlock()
			if d := launch(t, dir, nil, "backfill", "--quiet", "events.yaml"); d.status() != status {
				t.Errorf("it ended with %d: %s", d.status(), d.log)
			}
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(asked); !slices.Equal(asked, want) {
				t.Errorf("%s: it asked %q, not %q", output, asked, want)
			}
		}
		set := func(a, b int, fails string) {
			mu.Lock()
			defer mu.Unlock()
			newest, broken = map[string]int{"a": a, "b": b}, fails
		}
		set(9, 3, "")
		run(0, "a 0", "b 0")
		set(10, 3, "")
		run(0, "a 7", "b 1")
		set(10, 5, "b") // 10 is more than 9
		run(1, "a 8", "b 1")
		set(10, 5, "")
		run(0, "a 8", "b 1")
		run(0, "a 8", "b 3")
		set(1234567890123456789, 5, "") // as the identifiers of some services, of which a float has 16 digits
		run(0, "a 8", "b 3")
		run(0, "a 1234567890123456787", "b 3")
	}
	for wrong, want := range map[string]string{"lag: 1h}": "is a number where from is one", "lag: 2}\nrange: {from: 2024-01-01, to: today}": "does not go with range"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "events.yaml"), "name: events\nrequest: http://api.test/{item}?since={since}\nitems: [a]\ncolumns: [seq]\nsince: {column: seq, from: 0, "+wrong+"\n")
		if d := launch(t, dir, nil, "backfill", "events.yaml"); d.status() == 0 || !strings.Contains(d.log.String(), want) {
			t.Errorf("%s: %s", wrong, d.log)
		}
	}
}

// While what is newer than a time is not fetched whole, each run goes on with that, and asks for nothing besides.
func TestSinceAsksForNothingTwiceWhereARunFailed(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	fails := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		since, page := 0, 0
		_, _ = fmt.Sscan(r.URL.Query().Get("since"), &since)
		_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
		asked = append(asked, fmt.Sprintf("%d.%d", since, page))
		if page == 3 && fails == "failed" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		var list []string
		for seq := 7 - 2*page; seq >= max(since, 6-2*page); seq-- { // the newest first: 5 and 4, 3 and 2, 1 and 0
			list = append(list, fmt.Sprintf(`{"seq": %d}`, seq))
		}
		fmt.Fprintf(w, `{"has_more": %t, "data": [%s]}`, fails == "incomplete" || len(list) > 0 && page < 3, strings.Join(list, ","))
	}))
	defer server.Close()
	for _, state := range []string{"failed", "incomplete"} {
		dir := t.TempDir()
		run := func(why string, status int, want string, args ...string) {
			t.Helper()
			mu.Lock()
			asked, fails = nil, why
			mu.Unlock()
			d := launch(t, dir, nil, append(append([]string{"backfill", "--quiet"}, args...), "events.yaml")...)
			if d.status() != status || strings.Join(asked, " ") != want {
				t.Errorf("%s: it ended with %d and asked %q, not %q: %s", state, d.status(), asked, want, d.log)
			}
		}
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		write(t, filepath.Join(dir, "events.yaml"), "name: events\nrequest: http://api.test/?since={since}\npaginate: {style: page, first: 1}\nrecords: data\nid: seq\ncolumns: [seq]\nsince: {column: seq, from: 0, lag: 1}\nworkers: 1\n")
		first, rest := "0.1 0.2 0.3", "0.3"
		if state == "incomplete" {
			first = "0.1 0.2 0.3 0.4"
			rest = first // which begins anew
		}
		run(state, 1, first)
		if state == "incomplete" {
			change(t, filepath.Join(dir, "events.db"), "UPDATE events_units SET lease = 99")
		}
		run(state, 1, rest)
		run("", 0, strings.TrimSuffix(rest, " 0.4"))
		run("", 0, "4.1 4.2")
	}
}

// A unit that is done is fetched again only by --again.
func TestAgainFetchesWhatIsDone(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `[{"id": 1}, {"id": %d}]`, asked.Add(1)+1)
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	write(t, filepath.Join(dir, "repos.yaml"), "name: repos\nrequest: http://api.test/\nid: id\n")
	for i, args := range [][]string{{"backfill"}, {"backfill"}, {"backfill", "--again"}, {"backfill"}} {
		if d := launch(t, dir, nil, append(args, "--quiet", "repos.yaml")...); d.status() != 0 || asked.Load() != []int64{1, 1, 2, 2}[i] || strings.Contains(d.log.String(), "nothing was left to fetch; --again") != (i%2 == 1) {
			t.Errorf("run %d asked %d times: %s", i, asked.Load(), d.log)
		}
	}
	if d := launch(t, dir, nil, "export", "repos"); d.status() != 0 || strings.Count(d.out.String(), `"unit"`) != 3 {
		t.Errorf("%s%s", d.out, d.log)
	}
}
