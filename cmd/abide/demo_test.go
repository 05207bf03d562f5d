//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
)

func TestTheDemoShowsWhatAbideDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/abide.yaml", "faulty: [")
	d := launch(t, dir, []string{"ABIDE_CONFIG=/nonexistent", "ABIDE_ADMIN=wrong", "HTTP_PROXY=http://192.0.2.1:1"}, "demo")
	d.admin = d.out.await(t, `Through abide(?s:.*)dashboard is at\nhttp://(\S+)/\n`)[1]
	if code, page := d.ask("/"); code != 200 || !strings.Contains(page, "abide") {
		t.Errorf("the dashboard answers %d during the crawl", code)
	}
	if code := d.status(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	d.out.await(t, `(?s)Without abide:.* 200 .* 429.*\n  \{200: \d+, 429: \d+\} in .*Through abide.*\n  \{200: 12\} in .*abide +12 requests to 1 site in .*held .*limit: 5 requests[^\n]*announced by the site[^\n]*\n`)
	if log := d.log.String(); log != "" {
		t.Errorf("it logs %s", log)
	}
}

func TestTheDemoEndsWithASignal(t *testing.T) {
	t.Parallel()
	d := launch(t, t.TempDir(), nil, "demo")
	d.out.await(t, `Through abide(?s:.*) 200`)
	d.signal(syscall.SIGINT)
	if code := d.status(); code != exitFailed || d.log.String() != "abide: the demo was stopped\n" {
		t.Errorf("it ends with %d and %q", code, d.log)
	}
	d = launch(t, t.TempDir(), nil, "demo", "--stay")
	d.admin = d.out.await(t, `stays at http://(\S+)/ until Ctrl-C`)[1]
	if code, _ := d.ask("/"); code != 200 {
		t.Errorf("the dashboard answers %d after the crawl", code)
	}
	d.signal(syscall.SIGINT)
	if code := d.status(); code != 0 {
		t.Errorf("it ends with %d after --stay", code)
	}
}
