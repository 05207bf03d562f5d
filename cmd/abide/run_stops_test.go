//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// goesOn is a command that goes on after a signal until its requests have ended, as pools of threads in Python and
// Scrapy do.
func goesOn(urls ...string) []string {
	script := "trap '' INT TERM\n"
	for _, url := range urls {
		script += "curl -s --max-time 60 -o /dev/null -w '%{http_code} %header{retry-after} %header{proxy-status}\\n' " + url + " &\n"
	}
	return []string{"run", "--", "sh", "-c", script + "wait; exit 7"}
}

// TestHeldRequestsEndWhenTheCommandIsAskedToStop: those with a later turn at once.
func TestHeldRequestsEndWhenTheCommandIsAskedToStop(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		o, dir := newOrigin(t), t.TempDir()
		write(t, filepath.Join(dir, "abide.yaml"), "data: none\nsites: [{host: api.test, limits: [{requests: 1, per: 20h}]}]\nqueue: {wait: 100h}\n")
		d := launch(t, dir, []string{o.named()}, goesOn("http://api.test/", "http://api.test/", "http://api.test/")...)
		d.log.await(t, "abide holds 2 requests")
		d.signal(sig)
		if code := d.status(); code != 7 {
			t.Errorf("%v: it ended with %d", sig, code)
		}
		if out := d.out.String(); strings.Count(out, "503 5 abide; ") != 2 || strings.Count(out, "draining") != 2 {
			t.Errorf("%v: the answers are\n%s", sig, out)
		}
		if said := d.log.String(); strings.Count(said, "abide: asked to stop with 2 requests held: 2 cannot go within 10s and end now, the others go or end by then; press Ctrl-C again to end all now\n") != 1 {
			t.Errorf("%v: it says\n%s", sig, said)
		} else if !strings.Contains(said, "api.test: 2 answers 503 (by abide: draining)") || !strings.Contains(said, "answered or cut by abide itself: 2 draining (abide was asked to stop)") {
			t.Errorf("%v: the summary is\n%s", sig, said)
		}
	}
}

// TestWhatIsHeldEndsWithTheDrain: and what is in flight does not. Nothing is said where nothing is held.
func TestWhatIsHeldEndsWithTheDrain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drain   string
		signals []syscall.Signal
	}{
		"at its end":                 {"300ms", []syscall.Signal{syscall.SIGINT}},
		"at once by a second signal": {"9s", []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, dir := newOrigin(t), t.TempDir()
			write(t, filepath.Join(dir, "abide.yaml"), heldConfig+"timeouts: {drain: "+c.drain+"}\n")
			d := launch(t, dir, []string{o.named()}, goesOn("http://api.test/held", "http://api.test/held")...)
			o.wait(t, 1)
			d.log.await(t, "abide holds 1 request")
			for _, sig := range c.signals {
				d.signal(sig)
			}
			d.log.await(t, "abide: asked to stop with 1 request held: go or end within "+c.drain+"; press Ctrl-C again to end all now\n")
			d.out.await(t, "^503 5 abide; .*draining")
			o.letGo()
			d.out.await(t, "\n200 ")
			if code := d.status(); code != 7 {
				t.Errorf("it ended with %d", code)
			}
		})
	}
	o := newOrigin(t)
	d := launch(t, t.TempDir(), []string{o.named()}, goesOn("http://api.test/held")...)
	o.wait(t, 1)
	d.signal(syscall.SIGTERM)
	o.letGo()
	if d.out.await(t, "200 "); d.status() != 7 || strings.Contains(d.log.String(), "asked to stop") {
		t.Errorf("it says\n%s", d.log)
	}
}
