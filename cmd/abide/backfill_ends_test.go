//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// sixty answers with 60 records, 20 a page: of /cursor by meta.next_cursor, of /odata by
// @odata.nextLink, of /numbers by the number of the page. The path says what else is wrong with it.
func sixty(asked *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		nth := asked.Add(1)
		number := func(name string, otherwise int) int {
			n, err := strconv.Atoi(r.URL.Query().Get(name))
			if err != nil {
				return otherwise
			}
			return n
		}
		kind, fault, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
		from, body := 0, map[string]any{}
		switch kind {
		case "cursor":
			from = number("cursor", 0)
			body["meta"] = map[string]any{"next_cursor": map[bool]any{true: strconv.Itoa(from + 20)}[from < 40]}
		case "odata":
			if from = number("skip", 0); from < 40 {
				body["@odata.nextLink"] = fmt.Sprint("http://", r.Host, "/odata?skip=", from+20)
			}
		case "more":
			body["has_more"], body["total"] = true, 60
		case "numbers":
			first := 1
			if fault == "from_0" {
				first = 0
			}
			from = 20 * (number("page", first) - first)
		}
		list := []any{}
		for i := max(from, 0); i < min(from+20, 60); i++ {
			list = append(list, map[string]any{"id": strconv.Itoa(i)})
		}
		body["data"] = list
		text, _ := json.Marshal(body)
		behind := from < 0 || from >= 60
		switch {
		case fault == "cut" && nth == 2:
			text = text[:len(text)/2]
		case fault == "html" && nth == 2:
			w.Header().Set("Content-Type", "text/html")
			text = []byte("<html>busy</html>")
		case fault == "error" && nth == 2:
			text = []byte(`{"error":"busy"}`)
		case fault == "204" && behind:
			w.WriteHeader(http.StatusNoContent)
			return
		case fault == "no_list" && behind:
			text = []byte(`{"page":4}`)
		case fault == "400" && behind:
			w.WriteHeader(http.StatusBadRequest)
			text = []byte(`{"error":"page out of range"}`)
		case fault == "401":
			w.WriteHeader(http.StatusUnauthorized)
		case fault == "null_id":
			text = []byte("{\"data\":[{\"id\":1},{\"id\":null},{\"id\":2,\"a\":\"\xff\"}]}")
		}
		_, _ = w.Write(text)
	}
}

// What a backfill says of servers and job files that may lose records.
func TestABackfillHasAllRecordsOrSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path, paginate string
		done           bool
		says           string
	}{
		"a misspelt cursor":        {"cursor", "{style: cursor, param: cursor, next: meta.next_curser}", false, `no answer has had \\?"meta.next_curser\\?".*there is meta.next_cursor`},
		"a key with a dot":         {"odata", `{style: next_url, next: "@odata.nextLink"}`, true, ""},
		"pages from 0":             {"numbers/from_0", "page", true, ""},
		"pages from 1":             {"numbers", "page", true, ""},
		"no style, and more":       {"more", "none", false, "incomplete.*has_more"},
		"no style, not checked":    {"more", "{style: none, check: off}", false, "20 records"},
		"a cut answer":             {"numbers/cut", "page", true, ""},
		"a page of HTML":           {"cursor/html", "{style: cursor, param: cursor, next: meta.next_cursor}", true, ""},
		"an error with status 200": {"cursor/error", "{style: cursor, param: cursor, next: meta.next_cursor}", true, ""},
		"204 behind the last page": {"numbers/204", "page", true, ""},
		"no list behind it":        {"numbers/no_list", "page", true, ""},
		"400 behind it":            {"numbers/400", "page", true, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(sixty(&asked))
			defer server.Close()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
			write(t, filepath.Join(dir, "job.yaml"), fmt.Sprintf("name: list\nrequest: http://api.test/%s\npaginate: %s\nrecords: data\nid: id\n", test.path, test.paginate))
			d := launch(t, dir, nil, "backfill", "job.yaml")
			code, file := d.status(), filepath.Join(dir, "list.db")
			n, done := count(t, file, "SELECT count(*) FROM list"), count(t, file, "SELECT count(*) FROM list_units WHERE state = 'done'")
			switch {
			case test.done && (code != 0 || n != 60 || done != 1):
				t.Errorf("it ended with %d, %d records and %d units done\n%s", code, n, done, d.log.String())
			case !test.done && strings.Contains(test.paginate, "off") && (code != 0 || n != 20):
				t.Errorf("it ended with %d and %d records\n%s", code, n, d.log.String())
			case !test.done && !strings.Contains(test.paginate, "off") && (code != exitFailed || done != 0):
				t.Errorf("it ended with %d and %d units done\n%s", code, done, d.log.String())
			}
			if test.says != "" {
				d.log.await(t, test.says)
			}
		})
	}
}

// What all units have in common stops the job; what one record has does not even fail its unit; and
// a day that is not over is not done, and is no failure.
func TestABackfillTellsFaultsOfTheJobFromThoseOfARecord(t *testing.T) {
	t.Parallel()
	for fault, test := range map[string]struct {
		code, most, done int
		says             string
	}{
		"401":     {exitFailed, 12, 0, "401 Unauthorized; the job stops"},
		"null_id": {0, 3, 1, "1 of 2 units, 1 not over yet; this run: [0-9]+ requests, 2 records in .*; all runs: 2 records came, 2 rejected .list_rejects says why"},
		"today":   {0, 3, 1, "1 unit is not over yet; it is fetched by the first run after [0-9-]+T00:00:00Z"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(sixty(&asked))
			defer server.Close()
			dir, now := t.TempDir(), time.Now().UTC()
			from := now.AddDate(0, 0, -1)
			if fault == "401" {
				from = now.AddDate(-1, 0, 0)
			}
			write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
			write(t, filepath.Join(dir, "job.yaml"), fmt.Sprintf("name: list\nrequest: http://api.test/list/%s?day={date}\nrange: {from: %s, to: %s}\nrecords: data\nid: id\n", fault, from.Format(time.DateOnly), now.Format(time.DateOnly)))
			d := launch(t, dir, nil, "backfill", "job.yaml")
			if code := d.status(); code != test.code || asked.Load() > int64(test.most) {
				t.Errorf("it ended with %d after %d requests\n%s", code, asked.Load(), d.log.String())
			}
			if done := count(t, filepath.Join(dir, "list.db"), "SELECT count(*) FROM list_units WHERE state = 'done'"); done != test.done {
				t.Errorf("%d units are done\n%s", done, d.log.String())
			}
			d.log.await(t, test.says)
		})
	}
}

// A crawler that owns a part of all URLs would leave out units.
func TestABackfillWithAShardIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: data\nshard: {index: 0, of: 2}\n")
	write(t, filepath.Join(dir, "job.yaml"), "name: list\nrequest: http://127.0.0.1:1/{item}\nitems: [a, b]\n")
	d := launch(t, dir, nil, "backfill", "job.yaml")
	if code := d.status(); code != exitUsage {
		t.Errorf("it ended with %d", code)
	}
	d.log.await(t, "shard is for the requests of crawlers")
}

// TestEachRunFetchesTheLastDaysAgain: what a server has corrected meanwhile is corrected in the output, and a day that
// has come is added.
func TestEachRunFetchesTheLastDaysAgain(t *testing.T) {
	t.Parallel()
	var run, asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		day := r.URL.Query().Get("day")
		fmt.Fprintf(w, `[{"id": %q, "value": %d}]`, day, run.Load())
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	write(t, filepath.Join(dir, "job.yaml"), "name: days\nrequest: http://api.test/?day={date}\nid: id\ncolumns: [value]\nrange: {from: 2025-01-01, to: 2025-01-10, again: 3d}\n")
	for _, want := range []int64{10, 3, 3} {
		asked.Store(0)
		if d := launch(t, dir, nil, "backfill", "job.yaml"); d.status() != 0 || asked.Load() != want {
			t.Errorf("run %d asked %d times, not %d\n%s", run.Load(), asked.Load(), want, d.log.String())
		}
		run.Add(1)
	}
	file := filepath.Join(dir, "days.db")
	if n, corrected := count(t, file, "SELECT count(*) FROM days"), count(t, file, "SELECT count(*) FROM days WHERE value = 2"); n != 10 || corrected != 3 {
		t.Errorf("%d records, of which %d are corrected", n, corrected)
	}
}
