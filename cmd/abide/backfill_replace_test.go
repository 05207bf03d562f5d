//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

// With replace: unit a day that is fetched again has what the server has then, also without id: what was corrected is no second
// row, and what was deleted goes. Until the last page has come, and after kill -9, the rows of the run before are there. Where
// a rule of errors ends the unit at its first page, they stay.
func TestAUnitThatIsFetchedAgainReplacesItsRecords(t *testing.T) {
	t.Parallel()
	postgres, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	for _, at := range []string{"days.db", postgres.Database(t)} {
		var version atomic.Int64
		blocked := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			day, page, v := r.URL.Path[1:], r.URL.Query().Get("page"), version.Load()
			switch {
			case page == "":
				w.Header().Set("Link", `</`+day+`?page=2>; rel="next"`)
			case v == 1:
				close(blocked)
				<-r.Context().Done()
				return
			}
			if v == 3 {
				fmt.Fprint(w, `{"error": "maintenance"}`)
			} else if day == "2025-01-01" || page == "" || v < 2 {
				fmt.Fprintf(w, `[{"day": %q, "page": %q, "v": %d}, {"same": true}]`, day, page, v)
			} else {
				fmt.Fprint(w, `[]`)
			}
		}))
		defer server.Close()
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		write(t, filepath.Join(dir, "days.yaml"), "name: days\nrequest: http://api.test/{date}\nrange: {from: 2025-01-01, to: 2025-01-02, again: 1d}\npaginate: link\nreplace: unit\nworkers: 1\nerrors: [{path: error, then: reject}]\noutput: "+at+"\n")
		run := func() *daemon { return launch(t, dir, nil, "backfill", "--quiet", "days.yaml") }
		check := func(when, want string) {
			t.Helper()
			d := launch(t, dir, nil, "export", "days.yaml")
			d.status()
			got := []string{}
			for _, line := range strings.Split(strings.TrimSpace(d.out.String()), "\n") {
				found := regexp.MustCompile(`"unit":"2025-01-0(.)".*("v":.|"same")`).FindStringSubmatch(line)
				got = append(got, strings.Trim(found[1]+found[2], `"`))
			}
			if slices.Sort(got); strings.ReplaceAll(strings.Join(got, " "), `"`, "") != want {
				t.Errorf("%s, %s: %q, not %q", at, when, got, want)
			}
		}
		if d := run(); d.status() != 0 {
			t.Errorf("it says %s", d.log)
		}
		check("at first", "1same 1v:0 1v:0 2same 2v:0 2v:0")
		version.Store(1)
		killed := run()
		<-blocked
		killed.signal(syscall.SIGKILL)
		killed.status()
		check("when it was killed", "1same 1v:0 1v:0 2same 2v:0 2v:0 2v:1")
		version.Store(2)
		for _, when := range []string{"after that", "once more"} {
			if d := run(); d.status() != 0 {
				t.Errorf("it says %s", d.log)
			}
			if when == "once more" {
				check(when, "1same 1v:0 1v:0 2same 2v:2")
			}
		}
		version.Store(3)
		run().status()
		check("when the site is maintained", "1same 1v:0 1v:0 2same 2v:2")
	}
}

// A server that answers with empty lists by mistake erases nothing: units that had records are incomplete. With check: off they
// may have none.
func TestAUnitThatHadRecordsIsNotEmptiedWithoutAWord(t *testing.T) {
	t.Parallel()
	var empty atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if empty.Load() || r.URL.Path == "/2025-01-03" {
			fmt.Fprint(w, `{"data": []}`)
		} else {
			fmt.Fprint(w, `{"data": [{"n": 1}, {"n": 2}]}`)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	job := "name: days\nrequest: http://api.test/{date}\nrange: {from: 2025-01-01, to: 2025-01-03, again: 3d}\nrecords: data\nreplace: unit\nnotify: {command: [tee, told]}\n"
	for i, one := range []struct {
		empty    bool
		paginate string
		status   int
		rows     int
		says     string
	}{
		{false, "", 0, 4, ""},
		{true, "", 1, 4, "of 3 units 2 incomplete"},
		{true, "", 1, 4, "the 2 that it had are kept"},
		{false, "", 0, 4, ""},
		{true, "paginate: {style: none, check: off}\n", 0, 0, ""},
		{true, "", 0, 0, ""},
	} {
		empty.Store(one.empty)
		write(t, filepath.Join(dir, "days.yaml"), job+one.paginate)
		d := launch(t, dir, nil, "backfill", "--quiet", "days.yaml")
		if d.status() != one.status || !strings.Contains(d.log.String(), one.says) {
			t.Errorf("run %d ended with %d: %s", i, d.status(), d.log)
		}
		if n := count(t, filepath.Join(dir, "days.db"), "SELECT count(*) FROM days"); n != one.rows {
			t.Errorf("run %d: %d rows", i, n)
		}
	}
}

// With id: place a report of several pages is stored whole, although its lines are equal, and once however often it is fetched.
func TestAReportIsStoredWholeByThePlacesOfItsLines(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest := `{"line": 1}`
		if r.URL.Query().Get("page") == "" {
			w.Header().Set("Link", `</?page=2>; rel="next"`)
			rest = `{"line": 2}`
		}
		fmt.Fprintf(w, `[{"same": true}, {"same": true}, %s]`, rest)
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	for id, rows := range map[string]int{"hash": 4, "place": 6} {
		write(t, filepath.Join(dir, id+".yaml"), "name: "+id+"\nrequest: http://api.test/\npaginate: link\nid: "+id+"\nreplace: unit\n")
		for range 2 {
			if d := launch(t, dir, nil, "backfill", "--quiet", "--again", id+".yaml"); d.status() != 0 || strings.Contains(d.log.String(), "equal") != (id == "hash") {
				t.Errorf("%s: it says %s", id, d.log)
			}
			if n := count(t, filepath.Join(dir, id+".db"), "SELECT count(*) FROM "+id); n != rows {
				t.Errorf("%s: %d rows", id, n)
			}
		}
	}
	write(t, filepath.Join(dir, "place.yaml"), "name: place\nrequest: http://api.test/\nid: place\n")
	if d := launch(t, dir, nil, "backfill", "place.yaml"); d.status() == 0 || !strings.Contains(d.log.String(), "place, which needs replace: unit") {
		t.Errorf("it says %s", d.log)
	}
}
