//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A token that an earlier run has put away is not used by the next, which names it all the same, as a report does.
func TestATokenThatAnEarlierRunHasPutAwayIsNamed(t *testing.T) {
	t.Parallel()
	k, dir := newKeys(t, 500), t.TempDir()
	k.bill = "pay"
	env := k.configure(t, dir, "alice", "bob", "carol")
	for run := range 2 {
		d := launch(t, dir, env, "run", "--summary", "summary.json", "--", "sh", "-c", "for i in 1 2 3 4; do curl -s -o /dev/null http://api.test/a; done")
		if code := d.status(); code != 0 {
			t.Fatalf("run %d: %d", run, code)
		}
		d.log.await(t, `denied +carol of api \(.*402.*, until .* UTC\): replace each or remove it from its pool`)
		text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
		if want := regexp.MustCompile(`"denied":\[{"pool":"api","label":"carol","reason":"402[^"]*","until":"2`); err != nil || !want.Match(text) {
			t.Errorf("run %d: %v %s", run, err, text)
		}
		if said := d.log.String(); run > 0 && strings.Contains(said, "carol of api (0") {
			t.Errorf("a token that was not used is among those that were:\n%s", said)
		}
	}
	d := serveIn(t, dir, env)
	d.get("http://api.test/a")
	if _, out, _ := d.command("report"); !regexp.MustCompile(`(?m)^denied\n\ncarol of api \(.*402.*, until .* UTC\)`).MatchString(out) {
		t.Errorf("the report says\n%s", out)
	}
	if _, out, _ := d.command("report", "--site", "other.test"); strings.Contains(out, "carol") {
		t.Errorf("the report of a site without the pool says\n%s", out)
	}
}
