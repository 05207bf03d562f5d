//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store"
)

// multiply gives each document about a site in a state file to so many others.
func multiply(t *testing.T, file, site string, times int) {
	t.Helper()
	f, err := store.OpenFile(t.Context(), file, store.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, kind := range []string{"ledger", "routes"} {
		all, err := f.All(t.Context(), kind)
		if err != nil || len(all) != 1 {
			t.Fatal(kind, all, err)
		}
		many := map[string]store.Document{}
		for key, value := range all {
			for n := range times {
				many[strings.Replace(key, site, fmt.Sprintf("s%05d.test", n), 1)] = store.Document{Value: value, Until: time.Now().Add(time.Hour)}
			}
		}
		if err := f.PutAll(t.Context(), kind, many); err != nil {
			t.Fatal(err)
		}
	}
}

// A scrape with 10,000 sites that were known before the start took 52 ms, because each restored the limits of 2,000
// sites again. The log of this test has the times.
func TestTheLimitsOfTenThousandSitesAreShownAfterARestart(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), []string{limited(t)}
	write(t, filepath.Join(dir, "abide.yaml"), "data: data\n")
	d := serveIn(t, dir, env)
	for range 2 {
		d.get("http://api.test/")
	}
	d.signal(syscall.SIGTERM)
	d.status()
	multiply(t, filepath.Join(dir, "data", "abide.db"), "api.test", 10_000)
	d = serveIn(t, dir, env)
	for path, want := range map[string]string{
		"/metrics": `abide_limit_remaining{limit="2 requests",site="other"} 0`, "/api/v1/status": "", "/api/v1/tokens": "s00042.test", "/": "s00042.<wbr>test",
	} {
		var took []time.Duration
		for range 9 {
			began := time.Now()
			code, text := d.ask(path)
			took = append(took, time.Since(began))
			if code != 200 || !strings.Contains(text, want) {
				t.Errorf("%s: %d, without %q", path, code, want)
			}
		}
		first := took[0]
		slices.Sort(took)
		t.Logf("%s: first %v, median %v", path, first, took[len(took)/2])
	}
	d.says(0, []string{"forget", "s00042.test"}, "s00042.test: forgot 2 requests\n")
	if _, text := d.ask("/api/v1/tokens"); strings.Contains(text, "s00042.test") {
		t.Error("a limit that was forgotten is shown")
	}
}
