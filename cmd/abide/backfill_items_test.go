//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

// The other values of an item that comes from another job stand in the URL, the body, a header and the columns of the
// records, and are those that the other job has now.
func TestAnItemHasTheOtherValuesOfItsParent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	owner := "ann"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/repos" {
			fmt.Fprintf(w, `[{"id": 1, "name": "a b", "owner": {"login": %q}}, {"id": 2, "name": "c", "owner": {"login": "bob"}}]`, owner)
			return
		}
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.URL.EscapedPath()+" "+r.Header.Get("Owner")+" "+string(body))
		fmt.Fprintf(w, `[{"number": 1, "of": %q}]`, r.URL.Path)
	}))
	defer server.Close()
	postgres, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	for _, output := range []string{"crawl.db", postgres.Database(t)} {
		dir := t.TempDir()
		mu.Lock()
		asked, owner = nil, "ann"
		mu.Unlock()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		write(t, filepath.Join(dir, "repos.yaml"), "name: repos\nrequest: http://api.test/repos\nid: id\ncolumns: {name: name, owner: owner.login}\noutput: "+output+"\n")
		write(t, filepath.Join(dir, "issues.yaml"), `name: issues
request:
  url: http://api.test/{item.owner}/{item.name}/{item}
  method: POST
  headers: {Owner: "{item.owner}"}
  body: '{"name": "{item.name}"}'
items: {job: `+output+`, name: repos, column: id}
columns: {repo: "{item.owner}/{item.name}", of: of}
output: `+output+"\n")
		run := func(args ...string) string {
			t.Helper()
			d := launch(t, dir, nil, args...)
			if code := d.status(); code != 0 {
				t.Errorf("%q ended with %d: %s%s", args, code, d.out, d.log)
			}
			return d.out.String()
		}
		run("backfill", "--quiet", "repos.yaml")
		run("backfill", "--quiet", "issues.yaml")
		mu.Lock()
		owner = "zoe"
		mu.Unlock()
		run("backfill", "--quiet", "--again", "repos.yaml")
		run("backfill", "--quiet", "--again", "issues.yaml")
		mu.Lock()
		slices.Sort(asked)
		want := []string{`/ann/a%20b/1 ann {"name": "a b"}`, `/bob/c/2 bob {"name": "c"}`, `/bob/c/2 bob {"name": "c"}`, `/zoe/a%20b/1 zoe {"name": "a b"}`}
		if !slices.Equal(asked, want) {
			t.Errorf("%s: it asked for %q", output, asked)
		}
		mu.Unlock()
		out := run("export", "issues.yaml")
		for _, repo := range []string{`"repo":"ann/a b"`, `"repo":"bob/c"`, `"repo":"zoe/a b"`} {
			if !strings.Contains(out, repo) {
				t.Errorf("%s: no record has %s: %s", output, repo, out)
			}
		}
	}
	for wrong, want := range map[string]string{
		"name: x\nrequest: http://api.test/{item.owner}\nitems: [a]\n":                                               "these items have no such value: take them from a CSV file or another job",
		"name: x\nrequest: http://api.test/{item}\nitems: [a]\nid: [\"{page}\", sku]\n":                              "has {page}, which is no placeholder",
		"name: x\nrequest: http://api.test/{items.owner}\nitems: [a]\n":                                              "is no placeholder",
		"name: x\nrequest: http://api.test/\nitems: [a]\ncolumns: {a: '{item}'}\n":                                   "has none of the placeholders {item}",
		"name: x\nrequest: http://api.test/{item}\nitems: {job: none.db, column: id}\ncolumns: {a: '{date}'}\n":      "columns.a: has {date}, and the job has no range",
		"name: x\nrequest: http://api.test/\nitems: [a]\nbatch: {param: q}\nevery: 30s\ncolumns: {a: 'of {item}'}\n": "a request of a batch has several items",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "x.yaml"), wrong)
		if d := launch(t, dir, nil, "backfill", "x.yaml"); d.status() == 0 || !strings.Contains(d.log.String(), want) {
			t.Errorf("%s: %s", wrong, d.log)
		}
	}
}

// An item that is no longer named fails no run, and goes on when it is named again.
func TestAnItemThatIsNoLongerNamedFailsNoRun(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `[{"id": %q, "at": "2025-01-01"}]`, r.URL)
	}))
	defer server.Close()
	for _, since := range []string{"", "?from={since}\nsince: {column: at, from: 2024-01-01}\ncolumns: [at]"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		write(t, filepath.Join(dir, "job.yaml"), "name: comes\nitems: items.txt\nid: id\nrequest: http://api.test/{item}"+since+"\n")
		for _, step := range []struct {
			items, shows string
			code         int
		}{
			{"a\ngone\n", "gone", 1},
			{"a\nb\n", "1 unit is no longer asked for", 0},
			{"a\nb\ngone\n", "404 Not Found", 1},
		} {
			write(t, filepath.Join(dir, "items.txt"), step.items)
			if d := launch(t, dir, nil, "backfill", "--quiet", "job.yaml"); d.status() != step.code {
				t.Errorf("%q: %d %s", step.items, d.status(), d.log)
			}
			if d := launch(t, dir, nil, "jobs", "show", "comes"); d.status() != 0 || !strings.Contains(d.out.String(), step.shows) {
				t.Errorf("%q: %s%s", step.items, d.out, d.log)
			}
		}
	}
}
