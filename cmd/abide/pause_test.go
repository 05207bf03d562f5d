//go:build linux

package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A site is paused, abide is killed and started again, and the site is resumed.
func TestAPauseIsSaidEverywhereAndOutlivesAKill(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf("data: data\negress: {resolve: {\"api.test:80\": %q}}\n", strings.TrimPrefix(o.url, "http://")))
	d := serveIn(t, dir, nil)
	if code, text := d.get("http://api.test/"); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	if code, out, errs := d.command("pause", "api.test", "--for", "2h", "--reason", "they migrate"); code != 0 || !strings.Contains(out, "api.test is paused by the operator until ") || !strings.Contains(out, ": they migrate") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, out, errs := d.command("pause", "api.tets", "--for", "10ms"); code != 0 || !strings.Contains(out, "api.tets is ") || !strings.Contains(out, `no such site was seen; did you mean "api.test"?`) {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if _, out, errs := d.command("pause", "api.test", "--for", "2h", "--reason", "they migrate"); strings.Contains(out, "no such site") {
		t.Errorf("%s%s", out, errs)
	}
	refused := func(d *daemon) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Abide-Max-Wait", "1s")
		answer, err := d.client(nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 429 || answer.Header.Get("Retry-After") == "" {
			t.Errorf("%d, Retry-After: %q", answer.StatusCode, answer.Header.Get("Retry-After"))
		}
	}
	refused(d)
	d.signal(syscall.SIGKILL)
	<-d.ended
	d = serveIn(t, dir, nil)
	refused(d)
	if text := d.log.String(); !strings.Contains(text, "api.test is paused") || strings.Contains(text, "api.tets is paused") {
		t.Errorf("the log has a pause that is over, or not the one that holds: %s", text)
	}
	for _, args := range [][]string{{"status"}, {"sites"}, {"explain", "http://api.test/"}} {
		if code, out, errs := d.command(args...); code != 0 || !strings.Contains(out, "paused") {
			t.Errorf("%q: %d %s%s", args, code, out, errs)
		}
	}
	if _, page := d.ask("/"); !strings.Contains(page, "they migrate") {
		t.Error("the page does not say it")
	}
	if code, out, errs := d.command("resume", "api.test"); code != 0 || !strings.Contains(out, "api.test is resumed") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, text := d.get("http://api.test/"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	for want, args := range map[string][]string{
		"is not paused":          {"resume", "api.test"},
		"is no time for a pause": {"pause", "api.test", "--for", "soon"},
		"a site is a host":       {"pause", "http://api.test/"},
		"at most 200 bytes":      {"pause", "api.test", "--reason", strings.Repeat("x", 201)},
		"takes 1 argument":       {"pause"},
	} {
		if code, out, errs := d.command(args...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: %d %s%s", args, code, out, errs)
		}
	}
}

func TestASecondCollectionOfAJobIsRefused(t *testing.T) {
	t.Parallel()
	site, dir := newPrices(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(site.Server))
	write(t, filepath.Join(dir, "prices.yaml"), "name: prices\nrequest: http://api.test/{item}\nitems: [a, dead]\nid: id\nevery: 1s\noutput: prices.db\n")
	first := launch(t, dir, nil, "collect", "--stdout", "prices.yaml")
	first.out.await(t, `"id":"a"`)
	first.log.await(t, "target dead does not answer")
	second := launch(t, dir, nil, "collect", "prices.yaml")
	if code := second.status(); code != exitFailed || !strings.Contains(second.log.String(), "another process collects this job") {
		t.Errorf("%d %s", code, second.log.String())
	}
	first.signal(syscall.SIGTERM)
	if code := first.status(); code != 0 {
		t.Errorf("%d %s", code, first.log.String())
	}
	shows := func(want string) {
		t.Helper()
		show := launch(t, dir, nil, "jobs", "show", "prices")
		if code := show.status(); code != 0 || !regexp.MustCompile(want).MatchString(show.out.String()) {
			t.Errorf("%d %s%s", code, show.out.String(), show.log.String())
		}
	}
	shows(`dead .*failures in a row: \d+; the last: .*\d`)
	db, err := sql.Open("sqlite", filepath.Join(dir, "prices.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("ALTER TABLE prices_targets DROP COLUMN reason"); err != nil { // as in an output of an older release
		t.Fatal(err)
	}
	shows(`dead .*failures in a row: \d+\n`)
	again := launch(t, dir, nil, "collect", "--rounds", "1", "prices.yaml")
	if code := again.status(); code != 0 {
		t.Errorf("%d %s", code, again.log.String())
	}
	if _, err := db.Exec("SELECT reason FROM prices_targets"); err != nil {
		t.Error(err)
	}
}

// A tunnel that abide does not open waits for the end of a pause, too.
func TestATunnelToAPausedSiteWaits(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf("data: data\nintercept: none\nlisten_open: off\negress: {resolve: {\"api.test:443\": %q}}\n", strings.TrimPrefix(o.url, "http://")))
	d := serveIn(t, dir, nil)
	if code, out, errs := d.command("pause", "api.test"); code != 0 {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	connect := func(header string) func() int {
		conn, err := net.Dial("tcp", d.proxy)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n%s\r\n", header)
		return func() int {
			answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode
		}
	}
	if code := connect("Abide-Max-Wait: 1s\r\n")(); code != 429 {
		t.Errorf("a tunnel that may not wait: %d", code)
	}
	answer := connect("")
	d.await("/api/v1/holds", "paused by the operator")
	if code, out, errs := d.command("resume", "api.test"); code != 0 {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code := answer(); code != 200 {
		t.Errorf("after the pause: %d", code)
	}
}
