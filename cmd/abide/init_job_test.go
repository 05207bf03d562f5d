//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// numbersFrom answers with pages of 20 of 50 records, in some styles of pages, for whom has the credential.
func numbersFrom(w http.ResponseWriter, r *http.Request) {
	from, page := 0, 0
	_, _ = fmt.Sscan(r.URL.Query().Get("start"), &from)
	if _, err := fmt.Sscan(r.URL.Query().Get("page"), &page); err == nil {
		from = 20 * (page - 1)
	}
	list := []string{}
	for i := from; i < min(from+20, 50); i++ {
		list = append(list, fmt.Sprintf(`{"orderNo": "A-%d", "customer": {"name": "n"}, "lines": [{"sku": 1}], "paid": true}`, i))
	}
	records, more := "["+strings.Join(list, ",")+"]", from+20 < 50
	switch path := r.URL.Path; {
	case r.Header.Get("Authorization") != "Bearer hunter22":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"message": "bad credentials", "sent": %q}`, r.Header.Get("Authorization"))
	case path == "/v1/link-orders":
		if more {
			w.Header().Set("Link", fmt.Sprintf(`<%s?start=%d>; rel="next"`, path, from+20))
		}
		_, _ = fmt.Fprint(w, records)
	case path == "/odata":
		next := ""
		if more {
			next = fmt.Sprintf(`, "@odata.nextLink": "/odata?start=%d"`, from+20)
		}
		_, _ = fmt.Fprintf(w, `{"value": %s%s}`, records, next)
	case path == "/pages":
		_, _ = fmt.Fprintf(w, `{"rows": %s, "total": 50}`, records)
	case path == "/cut":
		_, _ = fmt.Fprintf(w, `{"rows": %s, "has_more": true}`, records)
	case path == "/order":
		_, _ = fmt.Fprint(w, `{"id": 7, "lines": [{"sku": 1}, {"sku": 2}]}`)
	case path == "/page":
		_, _ = fmt.Fprint(w, "<html><p>Hello</p></html>")
	default:
		_, _ = fmt.Fprint(w, `{"rows": []}`)
	}
}

// Init job writes a job that fetches all pages, whatever their style is, and no file where there is no list of records.
// A secret is never in the file or in what is said.
func TestInitJobWritesAJobFromWhatAURLAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(numbersFrom))
	defer server.Close()
	credential := "Authorization: Bearer ${TOKEN}"
	for _, c := range []struct {
		path, file string
		keys       string // "": there is no file
		said       string
		records    int // that the job fetches
	}{
		{"v1/link-orders", "link-orders.yaml", "paginate: {style: link}\nid: [orderNo]\ncolumns: [customer.name, paid]\n", `pages follow by the header Link with rel="next"`, 50},
		{"odata?a=b", "odata.yaml", "paginate: {style: next_url, next: '@odata.nextLink'}\nrecords: value\nid: [orderNo]\n", "the job finds 20 records", 50},
		{"pages?page=1", "pages.yaml", "paginate: {style: page, param: page, first: 1, total: total}\nrecords: rows\n", "the next page is /pages?page=2", 50},
		{"order", "order.yaml", "id: [id]\n", "the job finds 1 record", 1},
		{"cut", "cut.yaml", "records: rows\n", "the unit would be incomplete", 0},
		{"page", "page.yaml", "", "it is a web page, so check the URL", 0},
		{"nothing", "nothing.yaml", "", "there are no records, so nothing can be proposed", 0},
		{"locked", "locked.yaml", "", "it needs a credential", 0},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
		sent := credential
		if c.path == "locked" {
			sent = "X-Other: ${TOKEN}"
		}
		d := launch(t, dir, []string{"TOKEN=hunter22"}, "init", "job", "-H", sent, "http://api.test/"+c.path)
		status := d.status()
		text, err := os.ReadFile(filepath.Join(dir, c.file))
		said := d.out.String() + d.log.String()
		if (status == 0) != (c.records > 0) || (err == nil) != (c.keys != "") || !strings.Contains(string(text), c.keys) || !strings.Contains(said, c.said) || strings.Contains(said+string(text), "hunter22") {
			t.Errorf("%s: status %d, %v\n%s\nwrote:\n%s", c.path, status, err, said, text)
		}
		if c.records == 0 {
			continue
		}
		d = launch(t, dir, []string{"TOKEN=hunter22"}, "backfill", c.file)
		if d.status() != 0 || !strings.Contains(d.log.String(), fmt.Sprintf("all runs: %d record", c.records)) {
			t.Errorf("%s: the backfill ended with %d\n%s", c.path, d.status(), d.log)
		}
		if d = launch(t, dir, []string{"TOKEN=hunter22"}, "init", "job", "-H", credential, "http://api.test/"+c.path); d.status() != 1 || !strings.Contains(d.log.String(), "exists and is left as it is") {
			t.Errorf("%s: the second file: status %d\n%s", c.path, d.status(), d.log)
		}
	}
	d := launch(t, t.TempDir(), nil, "init", "job", "-H", "Authorization: Bearer hunter22", "http://api.test/orders")
	if d.status() != 2 || !strings.Contains(d.log.String(), "would be written to the file") || strings.Contains(d.log.String(), "hunter22") {
		t.Errorf("a credential in the command: status %d\n%s", d.status(), d.log)
	}
}
