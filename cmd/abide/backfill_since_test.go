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
		mu.Lock()
		if want := []string{"2024-01-01", "2024-01-07T09:00:00Z", "2024-01-07T10:00:00Z"}; !slices.Equal(asked, append(want, want[2])) {
			t.Errorf("%s: it asked since %q", output, asked)
		}
		mu.Unlock()
	}
}
