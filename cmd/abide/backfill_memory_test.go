//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// peak is the most memory that a process which has ended had, in bytes.
func (d *daemon) peak() int64 {
	usage, _ := d.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return usage.Maxrss << 10
}

// A backfill and the export of its records need no more memory for ten times as many records.
// ABIDE_RECORDS says how many.
func TestMemoryDoesNotGrowWithTheRecordsOfAJob(t *testing.T) {
	t.Parallel()
	const page = 1000
	most := 30_000
	if text := os.Getenv("ABIDE_RECORDS"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		body.WriteString(`[`)
		for i := range page {
			if i > 0 {
				body.WriteString(",")
			}
			fmt.Fprintf(&body, `{"id":"%s-%d","name":"a record of some length","price":%d}`, r.URL.Path[1:], i, i)
		}
		body.WriteString(`]`)
		_, _ = io.WriteString(w, body.String())
	}))
	defer server.Close()
	peaks := map[string][]int64{}
	for _, records := range []int{most / 10, most} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		var items strings.Builder
		for i := range records / page {
			fmt.Fprintln(&items, i)
		}
		write(t, filepath.Join(dir, "items.txt"), items.String())
		write(t, filepath.Join(dir, "job.yaml"), "name: all\nrequest: http://api.test/{item}\nitems: {file: items.txt}\nid: id\ncolumns: {price: price}\noutput: all.db\n")
		for _, args := range [][]string{{"backfill", "--quiet", "job.yaml"}, {"export", "all.db", "--to", "all.jsonl"}, {"export", "all.db", "--to", "all.csv"}, {"export", "all.db", "--to", "all.parquet"}, {"jobs"}} {
			d := launch(t, dir, nil, args...)
			if code := d.status(); code != 0 {
				t.Fatalf("%q ended with %d\n%s", args, code, d.log.String())
			}
			name := args[0] + filepath.Ext(args[len(args)-1])
			peaks[name] = append(peaks[name], d.peak())
			took := d.cmd.ProcessState.SystemTime() + d.cmd.ProcessState.UserTime()
			t.Logf("%d records, %s: %d MiB, %v of CPU", records, name, d.peak()>>20, took)
		}
		if n := count(t, filepath.Join(dir, "all.db"), "SELECT count(*) FROM \"all\""); n != records/page*page {
			t.Errorf("%d records of %d", n, records)
		}
	}
	for name, p := range peaks {
		if p[1] > 2*p[0]+64<<20 {
			t.Errorf("%s needs %d MiB, and %d MiB for a tenth of the records", name, p[1]>>20, p[0]>>20)
		}
	}
}

// Eight pages of 50 MB come at once, once the site has answered. What is in memory of them is bounded by "memory" and one page,
// however many workers there are.
func TestMemoryDoesNotGrowWithThePagesThatComeAtOnce(t *testing.T) {
	t.Parallel()
	const pages = 8
	records := 25_000
	if raced { // it takes minutes, and several times the memory: tools/test runs it without, too
		records = 2_500
	}
	text := strings.Repeat("x", 2000)
	var began atomic.Int64
	all := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" { // until it is answered, one worker works
			_, _ = io.WriteString(w, `{"data": []}`)
			return
		}
		if began.Add(1) == pages {
			close(all)
		}
		<-all // so many answers are under way at once
		_, _ = io.WriteString(w, `{ "data": [`)
		for i := range records {
			fmt.Fprintf(w, `{ "id": "%s-%d", "text": %q }%s`, r.URL.Path[1:], i, text, map[bool]string{true: ", "}[i < records-1])
		}
		_, _ = io.WriteString(w, `] }`)
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	write(t, filepath.Join(dir, "job.yaml"), "name: all\nrequest: http://api.test/{item}\nitems: [first, a, b, c, d, e, f, g, h]\nrecords: data\nid: id\nworkers: 8\noutput: all.db\n")
	d := launch(t, dir, nil, "backfill", "--quiet", "job.yaml")
	if code := d.status(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	if n := count(t, filepath.Join(dir, "all.db"), `SELECT count(*) FROM "all"`); n != pages*records {
		t.Errorf("%d records of %d", n, pages*records)
	}
	t.Logf("%d MiB", d.peak()>>20)
	if !raced && d.peak() > 600<<20 {
		t.Errorf("it needs %d MiB", d.peak()>>20)
	}
}
