//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A try shows what a job makes of its first page, in each style of pages. It sends one request, shows no secret and
// stores nothing.
func TestATryShowsWhatAJobMakesOfItsFirstPage(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		from := 0
		for _, name := range []string{"cursor", "offset"} {
			_, _ = fmt.Sscan(r.URL.Query().Get(name), &from)
		}
		list := []string{}
		for i := from; i < min(from+20, 50); i++ {
			list = append(list, fmt.Sprintf(`{"order_id": %d, "customer": {"name": "n%[1]d"}, "tags": ["x"], "total": 1.5}`, i))
		}
		records := "[" + strings.Join(list, ",") + "]"
		switch r.URL.Path {
		case "/cursor":
			next := "null"
			if from < 40 {
				next = fmt.Sprintf("%q", fmt.Sprint(from+20))
			}
			_, _ = fmt.Fprintf(w, `{"data": {"items": %s, "others": [{"a": 1}]}, "meta": {"next_cursor": %s}}`, records, next)
		case "/offset":
			_, _ = fmt.Fprintf(w, `{"results": %s, "total": 50}`, records)
		case "/link":
			if from < 40 {
				w.Header().Set("Link", fmt.Sprintf(`</link?offset=%d>; rel="next"`, from+20))
			}
			_, _ = fmt.Fprint(w, records)
		case "/empty":
			_, _ = fmt.Fprint(w, `{"data": [], "total": 0}`)
		case "/page":
			_, _ = fmt.Fprint(w, "<html><p>Hello</p></html>")
		case "/one":
			_, _ = fmt.Fprint(w, `{"id": "\u009b31m", "name": "\u001b[2J", "updated_at": "2025-01-01", "mails": [{"a": 1}, {"a": 2}]}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"message": "bad credentials", "sent": %q}`, r.Header.Get("Authorization"))
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	run := func(want int, args ...string) *daemon {
		t.Helper()
		d := launch(t, dir, nil, append([]string{"backfill"}, args...)...)
		if d.status() != want {
			t.Errorf("%q: status %d\n%s%s", args, d.status(), d.out, d.log)
		}
		return d
	}
	for _, c := range []struct {
		path, keys string
		status     int
		want       string
	}{
		{"cursor", "records: data.items\nid: order_id\npaginate: auto", 0, `pages follow by the cursor in "meta.next_cursor", which the parameter "cursor" carries` + "\n"},
		{"cursor", "records: data.items\nid: order_id\npaginate: auto", 0, "the job finds 20 records, and the next page is /cursor?cursor=20\n\nfrom this answer abide proposes\n" +
			"paginate: {style: cursor, param: cursor, next: meta.next_cursor}\ncolumns: [customer.name, total]\n"},
		{"cursor", "paginate: auto", 0, `lists: "data.items" with 20 elements, "data.others" with 1 element; the longest is taken unless records names another` + "\n"},
		{"cursor", "records: data.items\nid: order_id\npaginate: auto\ncolumns: [customer.name, totl]", 1, `no record has "totl", the path of the column totl; the first has order_id, customer.name, `},
		{"cursor", "records: data.items\nid: total\npaginate: auto", 1, `20 records have 1 ID, and a record takes the place`},
		{"cursor", "paginate: auto\ncolumns: [customer.name]", 1, "\nrecords: data.items\nid: [order_id]\n"},
		{"cursor", "records: data.items\nid: order_id", 1, "the unit would be incomplete: "},
		{"cursor", "records: items", 1, `page 1 has no "items"`},
		{"cursor", "records: items", 1, "\nrecords: data.items\nid: [order_id]\n"},
		{"cursor", "records: data.items\nid: nothing", 1, `record 1 of page 1 has no "nothing"`},
		{"cursor", "records: data.items\nid: nothing", 1, "\nid: [order_id]\n"},
		{"offset", "records: results\nid: order_id\npaginate: offset", 0, "the job finds 20 records, and the next page is /offset?offset=20"},
		{"offset", "records: results\nid: order_id\npaginate: page", 0, "the next page is /offset?page=2"},
		{"link", "id: order_id\npaginate: link", 0, "the next page is /link?offset=20"},
		{"one", "", 0, "the job finds 1 record, and no page follows"},
		{"one", "", 0, `since: {column: updated_at, from: "2020-01-01", lag: 1h}`},
		{"one", "errors: [{path: mails, then: skip}]", 0, "errors says: skip"},
		{"empty", "records: data", 0, "there are no records, so nothing can be proposed"},
		{"page", "", 1, "it is a web page, so check the URL"},
		{"locked", "", 1, "bad credentials"},
		{"locked", "", 1, "it needs a credential"},
	} {
		asked.Store(0)
		write(t, filepath.Join(dir, "job.yaml"), "name: orders\nrequest: {url: http://api.test/"+c.path+", headers: {Authorization: Bearer hunter2}}\n"+c.keys+"\n")
		d := run(c.status, "--try", "job.yaml")
		all := d.out.String() + d.log.String()
		if asked.Load() != 1 || !strings.Contains(all, c.want) || !strings.Contains(all, "Authorization: (hidden)") || strings.Contains(all, "hunter2") || strings.ContainsAny(all, "\u009b\x1b") {
			t.Errorf("%s, %s: %d requests, want %q\n%s", c.path, c.keys, asked.Load(), c.want, all)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.db*")); len(left) > 0 {
		t.Errorf("the tries left %q", left)
	}
}
