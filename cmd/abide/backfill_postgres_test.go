//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

// Three processes fetch a year together into PostgreSQL. One of them is frozen for so long that
// its leases end, and comes back when the others are done.
func TestProcessesShareABackfillAndAFrozenOneSpoilsNothing(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	origin, database := newYearOrigin(t), server.Database(t)
	begin := func() *daemon {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), origin.config())
		write(t, filepath.Join(dir, "orders.yaml"), yearJob(database))
		return launch(t, dir, nil, "backfill", "--quiet", "orders.yaml")
	}
	frozen := begin()
	<-origin.after(40)
	frozen.signal(syscall.SIGSTOP)
	others := []*daemon{begin(), begin()}
	for _, d := range others {
		if status := d.status(); status != 0 {
			t.Fatalf("a process ended with %d", status)
		}
	}
	frozen.signal(syscall.SIGCONT)
	if status := frozen.status(); status != 0 {
		t.Fatalf("the process that was frozen ended with %d", status)
	}
	repeated, pages := origin.repeats()
	if pages != yearUnits*yearPages || repeated > 2*yearWorkers {
		t.Errorf("%d of %d pages were given, and %d given again", pages, yearUnits*yearPages, repeated)
	}
	file := filepath.Join(t.TempDir(), "orders.jsonl")
	d := launch(t, filepath.Dir(file), nil, "export", database, "--to", file)
	if status := d.status(); status != 0 {
		t.Fatalf("the export ended with %d", status)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var r struct{ ID string }
		if err := json.Unmarshal(line, &r); err != nil || seen[r.ID] {
			t.Fatalf("%s: twice, or %v", line, err)
		}
		seen[r.ID] = true
	}
	if want := yearUnits * yearPages * yearRecords; len(seen) != want {
		t.Errorf("%d records of %d", len(seen), want)
	}
}

// yearJob is the job of a year.
func yearJob(output string) string {
	return fmt.Sprintf(`
name: orders
request:
  url: http://api.test/orders?day={date}
range: {from: 2025-01-01, to: 2025-12-31}
paginate: {style: cursor, param: cursor, next: next}
records: data
id: id
columns: {day: day}
workers: %d
tries: 60
output: %s
`, yearWorkers, output)
}

// config is the configuration for the jobs of a year.
func (o *yearOrigin) config() string {
	limits := ""
	if o.quota > 0 {
		limits = fmt.Sprintf(", limits: [{requests: %d, per: 1s, as: fixed}]", o.quota)
	}
	return fmt.Sprintf("data: data\negress: {resolve: {\"api.test:80\": %q}}\nbreaker: {failures: 0}\nsites: [{host: api.test, learn: false%s}]\nretry: {base: 1ms, max: 20ms}\n", o.address, limits)
}
