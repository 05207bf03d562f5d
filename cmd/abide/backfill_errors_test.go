//go:build unix

package main

import (
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

// What becomes of the units of answers that "errors" names, with each output: they are asked for
// again, over, or rejected, or the job stops.
func TestErrorsSayWhatBecomesOfAUnit(t *testing.T) {
	t.Parallel()
	var limited, forbidden atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		case "/limited":
			if limited.Add(1) < 3 {
				_, _ = io.WriteString(w, `{ "error": { "code": "rate_limited" }, "data": [] }`)
				return
			}
			_, _ = io.WriteString(w, `{"error": null, "data": [ {"id": 1} ]}`)
		case "/broken":
			_, _ = io.WriteString(w, `{"error": {"code": "no such shop"}, "data": []}`)
		case "/forbidden":
			forbidden.Add(1)
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error": "plan"}`)
		default:
			_, _ = io.WriteString(w, `{"error": "", "data": [ {"id": 2} ]}`)
		}
	}))
	defer server.Close()
	postgres, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	for name, output := range map[string]string{"SQLite": "shops.db", "PostgreSQL": postgres.Database(t)} {
		limited.Store(0)
		forbidden.Store(0)
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		job := "name: shops\nrequest: http://api.test/{item}\nrecords: data\nid: id\nworkers: 1\noutput: " + output + "\nerrors:\n" +
			"  - {status: 404, then: skip}\n  - {path: error.code, is: rate_limited, then: retry}\n  - {status: 403, then: stop}\n  - {path: error, then: reject}\nitems: "
		write(t, filepath.Join(dir, "shops.yaml"), job+"[gone, limited, broken, good]\n")
		if d := launch(t, dir, nil, "backfill", "shops.yaml"); d.status() != 0 || !strings.Contains(d.log.String(), "4 of 4 units; this run: ") || !strings.Contains(d.log.String(), "1 rejected") {
			t.Errorf("%s: %s", name, d.log)
		}
		driver := map[bool]string{true: "sqlite", false: "pgx"}[output == "shops.db"]
		db, err := sql.Open(driver, strings.Replace(output, "shops.db", filepath.Join(dir, "shops.db"), 1))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var unit, reason, body string
		if err := db.QueryRow("SELECT unit, reason, body FROM shops_rejects").Scan(&unit, &reason, &body); err != nil || unit != "broken" || body != `{"error":{"code":"no such shop"},"data":[]}` || !strings.Contains(reason, "errors says reject") {
			t.Errorf("%s: %q %q %q %v", name, unit, reason, body, err)
		}
		write(t, filepath.Join(dir, "shops.yaml"), job+"[gone, limited, broken, good, forbidden, late]\n")
		if d := launch(t, dir, nil, "backfill", "shops.yaml"); d.status() != exitFailed || !strings.Contains(d.log.String(), `403 Forbidden, the answer, for which errors says stop, begins with {"error":"plan"}`) || forbidden.Load() != 1 {
			t.Errorf("%s: %d requests, %s", name, forbidden.Load(), d.log)
		}
		shown := [][]string{{"jobs"}, {"jobs", "--json"}, {"jobs", "show", "shops"}}
		for _, args := range shown {
			if d := launch(t, dir, nil, args...); d.status() != 0 || !strings.Contains(d.out.String(), "unit forbidden: the site answered 403 Forbidden") {
				t.Errorf("%s: %q does not say why it has stopped: %s%s", name, args, d.out, d.log)
			}
		}
		write(t, filepath.Join(dir, "shops.yaml"), job+"[gone, limited, broken, good, late]\n")
		if d := launch(t, dir, nil, "backfill", "shops.yaml"); d.status() != 0 {
			t.Errorf("%s: %s", name, d.log)
		}
		for _, args := range shown {
			if d := launch(t, dir, nil, args...); d.status() != 0 || strings.Contains(d.out.String(), "403") {
				t.Errorf("%s: %q says why an earlier run has stopped: %s%s", name, args, d.out, d.log)
			}
		}
	}
}
