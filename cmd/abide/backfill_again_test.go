//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/output/pgtest"
	"github.com/abide-proxy/abide/jobs/units"
)

// A unit that is fetched again is asked for by the ETag or the time that its only page had. 304 keeps its records, counts
// as done, and is not asked for where the job makes something else of the page, or with --again.
func TestAUnitThatHasNotChangedIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	version, asked := 1, map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		day := r.URL.Query().Get("day")
		tag, condition := fmt.Sprintf(`"%s-%d"`, day, version), r.Header.Get("If-None-Match")
		if r.URL.Path == "/times" {
			w.Header().Set("Last-Modified", tag)
			condition = r.Header.Get("If-Modified-Since")
		} else {
			w.Header().Set("ETag", tag)
		}
		switch condition {
		case "":
			asked["plain"]++
		case tag:
			asked["304"]++
			w.WriteHeader(http.StatusNotModified)
			return
		default:
			asked["changed"]++
		}
		if r.URL.Path == "/pages" && r.URL.Query().Get("page") == "1" {
			w.Header().Set("Link", `<`+r.URL.Path+`?page=2&day=`+day+`>; rel="next"`)
		}
		fmt.Fprintf(w, `[{"id": "%s a", "v": %d}, {"id": "%[1]s b%[3]s", "v": %[2]d}]`, day, version, r.URL.Query().Get("page"))
	}))
	defer server.Close()
	postgres, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	for _, one := range []struct{ output, path, want string }{
		{"days.db", "/tags?day={date}", "plain 5, 304 2, changed 2, plain 2, 304 2, plain 5"},
		{"days.db", "/times?day={date}", "plain 5, 304 2, changed 2, plain 2, 304 2, plain 5"},
		{"days.db", "/pages?page=1&day={date}", "plain 10, plain 4, plain 4, plain 4, plain 4, plain 10"},
		{postgres.Database(t), "/tags?day={date}", "plain 5, 304 2, changed 2, plain 2, 304 2, plain 5"},
	} {
		dir, saw := t.TempDir(), []string{}
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		run := func(change string, args ...string) {
			t.Helper()
			write(t, filepath.Join(dir, "days.yaml"), "name: days\nrequest: \"http://api.test"+one.path+"\"\nrange: {from: 2024-01-01, to: 2024-01-05, again: 2d}\npaginate: link\nid: id\noutput: "+one.output+"\n"+change)
			mu.Lock()
			asked = map[string]int{}
			mu.Unlock()
			d := launch(t, dir, nil, append([]string{"backfill", "--quiet", "days.yaml"}, args...)...)
			if code := d.status(); code != 0 {
				t.Errorf("%q ended with %d: %s", args, code, d.log)
			}
			mu.Lock()
			saw = append(saw, strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(asked), "map["), "]"))
			mu.Unlock()
		}
		run("")
		run("")
		mu.Lock()
		version++
		mu.Unlock()
		run("")
		run("columns: {v: v}\n")
		run("columns: {v: v}\n")
		run("columns: {v: v}\n", "--again")
		if got := strings.ReplaceAll(strings.Join(saw, ", "), ":", " "); got != one.want {
			t.Errorf("%s %s: %s", one.output, one.path, got)
		}
		rows, counted := 10, `"records": 10,`
		if strings.HasPrefix(one.path, "/pages") { // a record is on both pages of each day
			rows, counted = 15, `"records": 20,`
		}
		if d := launch(t, dir, nil, "jobs", "--json"); d.status() != 0 || !strings.Contains(d.out.String(), counted) {
			t.Errorf("%s %s: %s", one.output, one.path, d.out)
		}
		if d := launch(t, dir, nil, "export", "days.yaml"); d.status() != 0 || strings.Count(d.out.String(), "\n") != rows {
			t.Errorf("%s %s: %s", one.output, one.path, d.out)
		}
	}
}

// A backfill with --every begins a run again and again, by the job file that is there then, also after one that failed. A signal
// between two runs ends it.
func TestABackfillRunsAgainByItself(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `[{"id": 1}]`)
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	job := func(items string) {
		write(t, filepath.Join(dir, "lists.yaml"), "name: lists\nrequest: http://api.test/{item}\nid: id\noutput: lists.db\nitems: "+items+"\n")
	}
	job("[bad]")
	if d := launch(t, dir, nil, "backfill", "--every", "0s", "lists.yaml"); d.status() != 2 || !strings.Contains(d.log.String(), "--every is less than a second") {
		t.Errorf("it says %s", d.log)
	}
	d := launch(t, dir, nil, "backfill", "--every", "1s", "lists.yaml")
	if path := <-asked; path != "/bad" {
		t.Errorf("first it asks for %s", path)
	}
	d.log.await(t, "1 failed")
	d.log.await(t, "the next run of lists.yaml begins at")
	job("[good]")
	for path := range asked {
		if path == "/good" {
			break
		}
	}
	d.log.await(t, "lists: 1 of 1 units")
	d.log.await(t, "the next run of lists.yaml begins at .*\n(?s:.*)the next run of lists.yaml begins at")
	d.signal(syscall.SIGTERM)
	if code := d.status(); code != 0 && !strings.Contains(d.log.String(), "was stopped") {
		t.Errorf("it ended with %d: %s", code, d.log)
	}
}

// Each night has one day more. Without id, records that are alike on two days are both there. An id that is not unique loses
// records of earlier nights, which is told, unless records move between units; one with the unit loses none.
func TestEachNightKeepsTheRecordsOfEarlierOnes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/lines/") {
			fmt.Fprint(w, `[{"lines": [{"sku": 1}, {"sku": 1}]}, {"lines": [{"sku": 1}, {"sku": 2}]}]`)
			return
		}
		if page := r.FormValue("page"); page != "" { // the second has a record of the first
			fmt.Fprint(w, map[string]string{"1": `[{"n": 1}, {"n": 2}]`, "2": `[{"n": 2}, {"n": 3}]`, "3": `[{"n": 4}]`}[page])
			return
		}
		fmt.Fprint(w, `[{"country": "DE", "clicks": 1}, {"country": "US", "clicks": 2}]`)
	}))
	defer server.Close()
	for _, c := range []struct {
		keys string
		rows int
		told bool
	}{
		{"range: {from: 2025-01-01, to: 2025-01-0N}", 6, false},
		{"range: {from: 2025-01-01, to: 2025-01-0N}\nid: country", 2, true},
		{"range: {from: 2025-01-01, to: 2025-01-0N}\nid: country\nmoves: on", 2, false},
		{"range: {from: 2025-01-01, to: 2025-01-0N}\nid: ['{date}', country]", 6, false},
		{"range: {from: 2025-01-01, to: 2025-01-0N, again: 2d}", 6, false},
		{"range: {from: 2025-01-01, to: 2025-01-0N, again: 2d}\nrecords: \"[].lines\"", 12, false},
		{"range: {from: 2025-01-01, to: 2025-01-0N, again: 2d}\npaginate: {style: page, param: page, size: 2}", 12, true},
	} {
		dir, log := t.TempDir(), ""
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		for night := 1; night <= 3; night++ {
			write(t, filepath.Join(dir, "report.yaml"), "name: report\nrequest: http://api.test/"+map[bool]string{true: "lines/"}[strings.Contains(c.keys, "lines")]+"{date}"+map[bool]string{true: "?page=1"}[strings.Contains(c.keys, "page")]+"\n"+strings.ReplaceAll(c.keys, "N", fmt.Sprint(night))+"\n")
			d := launch(t, dir, nil, "backfill", "--quiet", "report.yaml")
			if code := d.status(); code != 0 {
				t.Errorf("%s ended with %d: %s", c.keys, code, d.log)
			}
			log += d.log.String()
		}
		if told := strings.Contains(log, "2 records took the place of others") || strings.Contains(log, "2 records are equal to ones of earlier pages"); told != c.told {
			t.Errorf("%s: it says\n%s", c.keys, log)
		}
		if d := launch(t, dir, nil, "export", "report.yaml"); d.status() != 0 || strings.Count(d.out.String(), "\n") != c.rows {
			t.Errorf("%s: %d rows are wanted:\n%s", c.keys, c.rows, d.out)
		}
	}
}

// A table that an older release has made goes on with the IDs that it has, the hashes of records alone.
func TestATableOfAnOlderReleaseKeepsItsIDs(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[{"clicks": 1}]`) }))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	file := filepath.Join(dir, "report.yaml")
	write(t, file, "name: report\nrequest: http://api.test/{item}\nitems: [a, b]\n")
	job, err := loadJob(file)
	if err != nil {
		t.Fatal(err)
	}
	job.Alone = true
	o, err := output.Open(t.Context(), job.Output, output.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Job(t.Context(), output.Description{Name: job.Name, Kind: backfills, Fingerprint: units.Fingerprint(job), Request: units.Described(job)}); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if d := launch(t, dir, nil, "backfill", "--quiet", "report.yaml"); d.status() != 0 {
		t.Errorf("it says %s", d.log)
	}
	if d := launch(t, dir, nil, "export", "report.yaml"); d.status() != 0 || strings.Count(d.out.String(), "\n") != 1 {
		t.Errorf("one row is wanted:\n%s", d.out)
	}
}
