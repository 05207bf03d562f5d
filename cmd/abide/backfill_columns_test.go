//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

// Columns have the types of the job file in both databases, a record with a value of another type is rejected, and a
// column that comes or gets another type later is filled from the records that are there.
func TestColumnsHaveTypes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[
			{"id": 1, "score": 12.50, "n": "7", "open": true, "at": "2025-01-31T10:00:00+02:00", "user": {"id": 5}},
			{"id": 2, "score": "0.1", "n": 9, "open": "false", "at": 1738310400, "user": null},
			{"id": 3, "score": 12345678901234567890.5, "at": "2025-01-31"},
			{"id": 4, "score": "many"}, {"id": 5, "user": "\u0000"}, {"id": 6, "user": [1e200000]}, {"id": 7, "user": {"\ud800": 1}},
			{"id": 8, "score": 1e200000}, {"id": 9, "score": "1e-20000"}, {"id": 10, "at": "0000-01-01"}]`)
	}))
	defer server.Close()
	postgres, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	for _, output := range []string{"scores.db", postgres.Database(t)} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		head := "name: scores\nrequest: http://api.test/{item}\nitems: [x]\nid: id\noutput: " + output + "\n"
		run := func(args ...string) string {
			t.Helper()
			d := launch(t, dir, nil, args...)
			if code := d.status(); code != 0 {
				t.Errorf("%q ended with %d: %s%s", args, code, d.out, d.log)
			}
			return d.out.String()
		}
		typed := "{path: score, type: number}"
		columns := "n: {path: n, type: integer}, open: {path: open, type: boolean}, at: {path: at, type: time}, user: {path: user, type: json}"
		check := func(rows ...string) {
			t.Helper()
			out := run("export", "scores.yaml")
			for _, row := range rows {
				if !strings.Contains(out, row) {
					t.Errorf("%s: no record has %s: %s", output, row, out)
				}
			}
		}
		filled := []string{
			`"columns":{"at":"2025-01-31T08:00:00.000000Z","n":7,"open":true,"score":12.5`,
			`"columns":{"at":"2025-01-31T08:00:00.000000Z","n":9,"open":false,"score":0.1,"user":null}`,
			`"columns":{"at":"2025-01-31T00:00:00.000000Z","n":null,"open":null,"score":12345678901234567`,
			`"user":{"id":5}`,
		}
		write(t, filepath.Join(dir, "scores.yaml"), head+"columns: {score: score, item: '{item}'}\n")
		run("backfill", "--quiet", "scores.yaml")
		check(`"item":"x"`)
		write(t, filepath.Join(dir, "scores.yaml"), head+"columns: {score: "+typed+", "+columns+", item: '{item}'}\n")
		run("backfill", "--quiet", "scores.yaml") // asks for nothing
		out := strings.ReplaceAll(run("export", "scores.yaml"), `"item":"x",`, "")
		for _, row := range filled {
			if !strings.Contains(out, row) {
				t.Errorf("%s: no record has %s: %s", output, row, out)
			}
		}
		if strings.Count(out, "\n") != 10 {
			t.Errorf("%s: a record is lost: %s", output, out)
		}
		write(t, filepath.Join(dir, "sums.yaml"), "name: sums\nrequest: http://api.test/{item}\nitems: {job: "+output+", name: scores, query: 'SELECT sum(score) FROM scores WHERE n < 9'}\n")
		if plan := run("backfill", "--dry-run", "sums.yaml"); !strings.Contains(plan, "GET http://api.test/12.5") {
			t.Errorf("%s: %s", output, plan)
		}
		write(t, filepath.Join(dir, "scores.yaml"), head+"columns: {score: "+typed+", "+columns+", usr: usr.id, item: '{item}'}\n")
		d := launch(t, dir, nil, "backfill", "--again", "scores.yaml")
		if d.status() != 0 || !strings.Contains(d.log.String(), "7 rejected") || !strings.Contains(d.log.String(), `no record has \"usr.id\", the path of the column usr`) {
			t.Errorf("%s: %s", output, d.log)
		}
		write(t, filepath.Join(dir, "scores.yaml"), head+"columns: {score: "+typed+", "+columns+", usr: user.id, item: '{item}'}\n")
		run("backfill", "--quiet", "scores.yaml") // asks for nothing
		check(`"item":"x","n":7`, `"user":{"id":5},"usr":`+map[bool]string{true: `5}`, false: `"5"}`}[output == "scores.db"])
	}
}
