//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAConfigurationIsEchoedWithoutItsTokens: what check, explain, the API, the
// dashboard, a refused reload and a refused start say of a configuration names tokens by
// their labels, and by a fingerprint those that have none. None of it has the text. What
// other commands print is in the script "secrets".
func TestAConfigurationIsEchoedWithoutItsTokens(t *testing.T) {
	const config = `
data: data
pools:
  named: {tokens: [{label: ann, secret: canary-inline}]}
  lines: {file: tokens.txt}
sites:
  - {host: api.test, pool: named, insecure: true}
  - {host: www.test, pool: lines, insecure: true}
%s`
	dir := t.TempDir()
	at := filepath.Join(dir, "abide.yaml")
	write(t, filepath.Join(dir, "tokens.txt"), "canary-first-line\ncanary-second-line\n")
	write(t, at, fmt.Sprintf(config, ""))
	clean := func(what, text string) {
		t.Helper()
		if strings.Contains(text, "canary") {
			t.Errorf("%s has a token: %s", what, text)
		}
	}
	run := func(wanted int, args ...string) string {
		t.Helper()
		d := launch(t, dir, nil, args...)
		if got := d.status(); got != wanted {
			t.Errorf("%v ended with %d", args, got)
		}
		text := d.out.String() + d.log.String()
		clean(strings.Join(args, " "), text)
		return text
	}
	says(t, run(0, "check"), "pool named", "ann", "pool lines", "2 tokens")
	run(0, "explain", "--admin", "off", "http://api.test/")

	d := serveIn(t, dir, nil)
	for _, path := range []string{"/", "/readyz", "/metrics", "/api/v1/status", "/api/v1/tokens", "/api/v1/tokens/lines", "/api/v1/explain?url=http://www.test/", "/api/v1/sites"} {
		status, text := d.ask(path)
		if status != 200 {
			t.Errorf("%s: %d", path, status)
		}
		clean(path, text)
	}
	if status, text := d.ask("/api/config"); status != 404 {
		t.Errorf("there is a configuration to be had: %d %s", status, text)
	}
	for _, wrong := range []string{
		"nonsense: true",
		"  - {host: a.test, pool: named, limits: [{requests: few}]}",
		"  - {host: a.test, pool: nobody}",
	} {
		write(t, at, fmt.Sprintf(config, wrong+"\n"))
		d.log.forget()
		d.signal(syscall.SIGHUP)
		line := d.log.await(t, `not reloaded.*abide\.yaml:\d+`)[0]
		clean("the log", d.log.String())
		says(t, run(2, "check"), "abide.yaml:")
		says(t, run(2, serveArgs...), "abide.yaml:")
		if line == "" {
			t.Error("no line is named")
		}
	}
}
