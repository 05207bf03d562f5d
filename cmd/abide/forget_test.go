//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// limited is a site with a limit that it announces, of which nothing is left after two requests.
func limited(t *testing.T) (variable string) {
	left := []string{"1", "0"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "2")
		w.Header().Set("X-RateLimit-Remaining", left[0])
		w.Header().Set("X-RateLimit-Reset", "600")
		left = append(left[1:], "0")
		fmt.Fprint(w, "from the origin")
	}))
	t.Cleanup(server.Close)
	return "ABIDE_EGRESS_RESOLVE=api.test:80=" + server.Listener.Addr().String()
}

// says fails unless a command ends with a code and prints all texts; those that begin with ! it must not print.
func (d *daemon) says(code int, args []string, texts ...string) {
	d.t.Helper()
	got, out, errs := d.command(args...)
	if got != code {
		d.t.Errorf("%q: %d %s%s", args, got, out, errs)
	}
	for _, text := range texts {
		if unwanted, not := strings.CutPrefix(text, "!"); strings.Contains(out+errs, unwanted) == not {
			d.t.Errorf("%q, %q: %s%s", args, text, out, errs)
		}
	}
}

func TestLimitsThatWereLearnedAreShownAfterARestartAndForgottenOnDemand(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), []string{limited(t)}
	write(t, filepath.Join(dir, "abide.yaml"), "data: data\n")
	restart := func(d *daemon) *daemon {
		d.signal(syscall.SIGTERM)
		d.status()
		return serveIn(t, dir, env)
	}
	d := serveIn(t, dir, env)
	for range 2 {
		d.get("http://api.test/")
	}
	d = restart(d)
	for _, path := range []string{"/", "/api/v1/tokens"} {
		if _, text := d.ask(path); !strings.Contains(strings.ReplaceAll(text, "_", " "), "known from before") {
			t.Errorf("%s: %s", path, text)
		}
	}
	d.says(0, []string{"status"}, "2 requests; known from before", "0 of 2")
	d.says(0, []string{"explain", "http://api.test/"}, `blocked by      "2 requests"`)
	// A request that waits for the limit goes as soon as that is forgotten.
	answered := make(chan string)
	go func() {
		_, text := d.get("http://api.test/")
		answered <- text
	}()
	d.await("/api/v1/holds", `"limit":"2 requests"`)
	d.says(1, []string{"forget", "api.tets"}, `nothing was learned of "api.tets"; did you mean "api.test"?`)
	d.says(0, []string{"forget", "api.test"}, "api.test: forgot 2 requests\n")
	if text := <-answered; text != "from the origin" {
		t.Error(text)
	}
	d.says(0, []string{"forget", "api.test"}, "api.test: forgot 2 requests\n")
	d.says(1, []string{"forget", "api.test"}, `nothing was learned of "api.test"`)
	d = restart(d)
	d.says(0, []string{"status"}, "!2 requests;")
	d.says(1, []string{"forget", "api.test"})
}

func TestWhatWasLearnedIsExplainedAndForgottenByTheStateFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: data\n")
	env := []string{limited(t)}
	d := serveIn(t, dir, env)
	for range 2 {
		d.get("http://api.test/")
	}
	used := launch(t, dir, nil, "forget", "--admin", "127.0.0.1:1", "api.test")
	if code := used.status(); code != 1 || strings.Contains(used.log.String(), "from the state file") {
		t.Errorf("with a file that a running abide uses: %d %s", code, used.log.String())
	}
	d.signal(syscall.SIGTERM)
	d.status()
	none := "no proxy is running"
	d.says(0, []string{"explain", "http://api.test/"}, none+": from the state file", "rule            none", `blocked by      "2 requests"`)
	d.says(0, []string{"advise"}, none+": from the state file", "!another amount", "!under sites")
	off := func(command ...string) *daemon {
		item := launch(t, dir, []string{"ABIDE_ADMIN_LISTEN=off"}, command...)
		item.status()
		return item
	}
	if text := off("explain", "http://api.test/").out.String(); !strings.Contains(text, `blocked by      "2 requests"`) {
		t.Errorf("with admin.listen: off: %s", text)
	}
	silent := launch(t, dir, []string{"ABIDE_ADMIN_LISTEN=off"}, "serve", "--listen", "127.0.0.1:0")
	silent.out.await(t, `proxy"?[ :]+"?http://`)
	for _, command := range []string{"explain", "forget"} {
		if text := off(command, "api.test").log.String(); !strings.Contains(text, "its admin.listen is off, so it cannot be asked: give it an admin.listen") {
			t.Errorf("%s beside an abide without admin.listen: %s", command, text)
		}
	}
	silent.signal(syscall.SIGTERM)
	silent.status()
	d.says(0, []string{"explain", "--json", "http://api.test/"}, `"limit":"2 requests"`)
	d.says(1, []string{"forget", "other.test"}, `nothing was learned of "other.test"`)
	d.says(0, []string{"forget", "api.test"}, none, "api.test: forgot 2 requests\n")
	d.says(1, []string{"forget", "api.test"}, `nothing was learned of "api.test"`)
	d.says(0, []string{"explain", "http://api.test/"}, "blocked by      nothing")
	// An abide with another data directory is asked in place of the file.
	another := serveIn(t, t.TempDir(), nil)
	another.says(1, []string{"forget", "api.test"}, `nothing was learned of "api.test"`, "!was not changed")
	beside := launch(t, dir, []string{"ABIDE_ADMIN_LISTEN=" + another.admin}, "forget", "api.test")
	if code, text := beside.status(), beside.log.String(); code != 1 || !strings.Contains(text, filepath.Join("data", stateFile)+" was not changed: with ABIDE_ADMIN_LISTEN=off it is") {
		t.Errorf("%d %s", code, text)
	}
}

// TestWhatWasLearnedByAnotherDialectIsForgotten: a limit that 503 taught does not outlive the rule that says what 503
// means, and other changes keep it.
func TestWhatWasLearnedByAnotherDialectIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: data\n")
	env := []string{limited(t)}
	d := serveIn(t, dir, env)
	for range 2 {
		d.get("http://api.test/")
	}
	for _, other := range []string{"queue: {wait: 7m}", "sites: [{host: api.test, stall: 9s}]"} {
		write(t, filepath.Join(dir, "abide.yaml"), "data: data\n"+other+"\n")
		d.says(0, []string{"reload"}, "reloaded: ")
		d.says(0, []string{"explain", "http://api.test/"}, `blocked by      "2 requests"`)
	}
	dialect := "data: data\nsites: [{host: api.test, dialect: {refusals: [{status: 503, overload: true}]}}]\n"
	write(t, filepath.Join(dir, "abide.yaml"), dialect)
	d.says(0, []string{"reload"}, "reloaded: ")
	d.says(0, []string{"explain", "http://api.test/"}, "blocked by      nothing")
	d.get("http://api.test/")
	write(t, filepath.Join(dir, "abide.yaml"), dialect+"queue: {wait: 7m}\n")
	d.says(0, []string{"reload"}, "reloaded: ")
	d.says(0, []string{"explain", "http://api.test/"}, `blocked by      "2 requests"`)
	// A dialect that changes while abide is stopped is no other case.
	restart := func(config string) {
		d.signal(syscall.SIGTERM)
		d.status()
		write(t, filepath.Join(dir, "abide.yaml"), config)
		d = serveIn(t, dir, env)
	}
	restart(dialect)
	d.says(0, []string{"explain", "http://api.test/"}, `blocked by      "2 requests"`)
	restart("data: data\n")
	d.says(0, []string{"explain", "http://api.test/"}, "blocked by      nothing")
}
