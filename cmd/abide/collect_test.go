//go:build linux

package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

// prices is a server with the price of each item. It answers 304 while a price is the same, and dead not at all.
type prices struct {
	*httptest.Server

	mu      sync.Mutex
	version map[string]int
	same    chan struct{} // has an element for an answer with 304
}

func newPrices(t *testing.T) *prices {
	t.Helper()
	p := &prices{version: map[string]int{}, same: make(chan struct{}, 1)}
	p.Server = httptest.NewServer(http.HandlerFunc(p.answer))
	t.Cleanup(p.Close)
	return p
}

func (p *prices) answer(w http.ResponseWriter, r *http.Request) {
	item := strings.TrimPrefix(r.URL.Path, "/")
	p.mu.Lock()
	version := p.version[item]
	etag := fmt.Sprintf(`"%d"`, version)
	same := r.Header.Get("If-None-Match") == etag
	if same {
		select {
		case p.same <- struct{}{}:
		default:
		}
	}
	p.mu.Unlock()
	w.Header().Set("ETag", etag)
	switch {
	case item == "dead":
		w.WriteHeader(500)
	case same:
		w.WriteHeader(304)
	default:
		fmt.Fprintf(w, `{"id":%q,"price":%d}`, item, version)
	}
}

func (p *prices) change(item string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version[item]++
}

// waitForSame waits for an answer with 304.
func (p *prices) waitForSame(t *testing.T) {
	t.Helper()
	select {
	case <-p.same:
	case <-time.After(patience):
		t.Fatal("no request asks whether something has changed")
	}
}

// ids are the IDs and prices of lines of JSON.
func ids(t *testing.T, lines string) (list []string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var r struct {
			ID   string
			Body struct{ Price int }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, fmt.Sprint(r.ID, "=", r.Body.Price))
	}
	return list
}

// A collection is run, stopped and run again, over a SQLite file and over PostgreSQL.
func TestACollectionStoresWhatChangesAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, at := range map[string]string{"SQLite": "prices.db", "PostgreSQL": server.Database(t)} {
		t.Run(name, func(t *testing.T) {
			site, dir := newPrices(t), t.TempDir()
			write(t, filepath.Join(dir, "abide.yaml"), resolved(site.Server))
			write(t, filepath.Join(dir, "prices.yaml"), fmt.Sprintf("name: prices\nrequest: http://api.test/{item}\nitems: [a, b, dead]\nid: id\nevery: 1s\noutput: %s\n", at))
			collect := func() *daemon { return launch(t, dir, nil, "collect", "--stdout", "prices.yaml") }
			first := collect()
			for _, item := range []string{"a", "b"} {
				first.out.await(t, `"id":"`+item+`"`)
			}
			first.log.await(t, "target dead does not answer")
			first.signal(syscall.SIGTERM)
			if code := first.status(); code != 0 {
				t.Fatalf("it ended with %d\n%s", code, first.log.String())
			}
			if got := ids(t, first.out.String()); len(got) != 2 {
				t.Errorf("%q\n%s", got, first.log.String())
			}
			site.change("a")
			again := collect()
			again.out.await(t, `"price":1`)
			site.waitForSame(t)
			again.signal(syscall.SIGTERM)
			if code := again.status(); code != 0 {
				t.Fatalf("it ended with %d\n%s", code, again.log.String())
			}
			if got := ids(t, again.out.String()); fmt.Sprint(got) != "[a=1]" {
				t.Errorf("after a change of a: %q", got)
			}
			exported := launch(t, dir, nil, "export", "prices")
			if code, got := exported.status(), ids(t, exported.out.String()); code != 0 || len(got) != 3 {
				t.Errorf("the export ended with %d: %q\n%s", code, got, exported.log.String())
			}
			if list := launch(t, dir, nil, "jobs"); list.status() != 0 || !strings.Contains(list.out.String(), "prices") {
				t.Errorf("%s%s", list.out.String(), list.log.String())
			}
			_ = os.Remove(filepath.Join(dir, "prices.yaml"))
			_ = os.Remove(filepath.Join(dir, "prices.db"))
			listed := "" // the table of PostgreSQL is there, and only the job file has its URL
			if name == "PostgreSQL" {
				listed = "unknown .* reading the job file: "
			}
			if list := launch(t, dir, nil, "jobs"); list.status() != 0 || strings.Contains(list.out.String(), "prices") != (listed != "") || !regexp.MustCompile(listed).MatchString(list.out.String()) {
				t.Errorf("without its files: %s%s", list.out.String(), list.log.String())
			}
		})
	}
}

// A collection through a running abide: the requests are that one's, with its limits.
func TestACollectionGoesThroughARunningAbide(t *testing.T) {
	t.Parallel()
	site, dir, registered := newPrices(t), t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(site.Server))
	through := serveIn(t, dir, nil)
	write(t, filepath.Join(registered, "prices.yaml"), "name: prices\nrequest: http://api.test/{item}\nitems: [a, b]\nid: id\nevery: 1s\noutput: prices.db\n")
	d := launch(t, registered, nil, "collect", "--stdout", "--proxy", "http://"+through.proxy, "prices.yaml")
	for _, item := range []string{"a", "b"} {
		d.out.await(t, `"id":"`+item+`"`)
	}
	d.signal(syscall.SIGTERM)
	if code, got := d.status(), ids(t, d.out.String()); code != 0 || len(got) != 2 {
		t.Fatalf("it ended with %d: %q\n%s", code, got, d.log.String())
	}
	_, metrics := through.ask("/metrics")
	if !strings.Contains(metrics, `site="api.test"`) {
		t.Error("the running abide has no requests of the collection")
	}
}

// A collection that has fetched nothing may change its request, or become a backfill. One that has records may not.
func TestACollectionThatHasFetchedNothingMayChangeItsRequest(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wrong" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `[{"id": 1}]`)
	}))
	defer server.Close()
	postgres, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	for _, output := range []string{"c.db", postgres.Database(t)} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		for _, step := range []struct {
			command, path string
			code          int
			log           string
		}{
			{"collect", "wrong", 0, "404 Not Found"},
			{"backfill", "wrong", 1, "404 Not Found"},
			{"collect", "right", 0, ""},
			{"collect", "wrong", 1, "the output has another job c"},
		} {
			args := map[string][]string{"collect": {"collect", "--rounds", "1", "job.yaml"}, "backfill": {"backfill", "job.yaml"}}[step.command]
			every := map[string]string{"collect": "every: 5s\n"}[step.command]
			write(t, filepath.Join(dir, "job.yaml"), "name: c\nrequest: http://api.test/"+step.path+"\nid: id\n"+every+"output: "+output+"\n")
			if d := launch(t, dir, nil, args...); d.status() != step.code || !strings.Contains(d.log.String(), step.log) {
				t.Errorf("%s: %+v: %s", output, step, d.log)
			}
		}
		for _, file := range []string{"c.jsonl.gz", "c.csv.zst"} {
			if d := launch(t, dir, nil, "export", "job.yaml", "--to", file); d.status() != 0 {
				t.Errorf("%s: %s", file, d.log)
			}
			f, err := os.Open(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var from io.Reader
			if from, err = gzip.NewReader(f); strings.HasSuffix(file, ".zst") {
				_, _ = f.Seek(0, io.SeekStart)
				from, err = zstd.NewReader(f)
			}
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(from); err != nil || !strings.Contains(string(text), `{"id":1}`) && !strings.Contains(string(text), `{""id"":1}`) {
				t.Errorf("%s: %q %v", file, text, err)
			}
		}
		for file, want := range map[string]string{"c.zip": ".zip is no format; end the name with .jsonl, .csv or .parquet, then .gz", "c.parqet": ".parqet is no format; end the name with"} {
			if d := launch(t, dir, nil, "export", "job.yaml", "--to", file); d.status() == 0 || !strings.Contains(d.log.String(), want) {
				t.Errorf("%s: %s", file, d.log)
			}
		}
	}
}
