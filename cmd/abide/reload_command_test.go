//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

// command runs abide once in the directory of a running one, and answers its status,
// output and standard error.
func (d *daemon) command(args ...string) (code int, out, errs string) {
	d.t.Helper()
	item := launch(d.t, d.cmd.Dir, nil, append(args, "--admin", d.admin)...)
	return item.status(), item.out.String(), item.log.String()
}

func TestAReloadNamesAPoolWithOtherTokens(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.txt")
	write(t, tokens, "aaaaaaaaaa\nbbbbbbbbbb\n")
	write(t, filepath.Join(dir, "abide.yaml"), "pools: {p: {file: tokens.txt}}\nsites: [{host: api.test, pool: p}]\n")
	d := serveIn(t, dir, nil)
	write(t, tokens, "aaaaaaaaaa\ncccccccccc\n")
	d.log.await(t, "the configuration was reloaded: tokens of pool p changed")
	write(t, tokens, "aaaaaaaaaa\ncccccccccc\ndddddddddd\n")
	d.log.await(t, "the configuration was reloaded: pool p: 2 → 3 tokens")
}

func TestARefusedReloadIsToldUntilOneSucceeds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	const good = "sites: [{host: api.test, limits: [{requests: 5, per: 1m}]}]\n"
	write(t, file, good)
	d := serveIn(t, dir, nil)
	if code, out, errs := d.command("reload"); code != 0 || out != "the abide at "+d.admin+":\nreloaded: nothing has changed\n" || errs != "" {
		t.Errorf("a reload of the same file: %d %s%s", code, out, errs)
	}

	write(t, file, "")
	d.log.await(t, refused)
	d.log.forget()
	if item := launch(t, dir, nil, "reload", "--data", "elsewhere"); item.status() != 1 || !strings.Contains(item.log.String(), "no abide is registered in ") {
		t.Errorf("a reload with an empty file: %s", item.log)
	}
	write(t, file, good+"lissten: 1\nqueue: {wait: never}\n")
	d.log.await(t, refused)
	code, out, errs := d.command("reload")
	for _, want := range []string{"keeps its last good configuration:\n", "abide.yaml:2: lissten: ", "abide.yaml:3: queue.wait: "} {
		if code != 2 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("a reload of a file with faults: %d, %q is not in\n%s%s", code, want, out, errs)
		}
	}

	// Everything that tells how abide is tells it, and abide serves on.
	const told = "the last good one is used, because a reload was refused: "
	if code, body := d.ask("/readyz"); code != 200 || !strings.Contains(body, "configuration: degraded (since ") || !strings.Contains(body, told) || !strings.Contains(body, "abide.yaml:2: lissten: ") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if _, body := d.ask("/"); !strings.Contains(body, told) || !strings.Contains(body, "abide.yaml:2: ") {
		t.Errorf("the page has no word of it:\n%s", body)
	}
	if code, out, errs := d.command("status"); code != 0 || !strings.Contains(out, "configuration: since ") || !strings.Contains(out, "abide.yaml:2: ") || errs != "" {
		t.Errorf("status: %d %s%s", code, out, errs)
	}
	var about status.Process
	_, body := d.ask("/api/v1/status")
	if err := json.Unmarshal([]byte(body), &about); err != nil || about.Reload == nil || len(about.Reload.Faults) != 2 ||
		about.Reload.Faults[1].Line != 3 || about.Reload.Faults[1].Key != "queue.wait" || time.Since(about.Reload.Since) > patience {
		t.Errorf("%v: %s", err, body)
	}
	since := about.Reload.Since

	// The time is that of the first refusal.
	d.log.forget()
	if code, _ := d.post("/api/v1/reload"); code != http.StatusUnprocessableEntity {
		t.Errorf("another reload: %d", code)
	}
	d.log.await(t, refused)
	_, body = d.ask("/api/v1/status")
	if err := json.Unmarshal([]byte(body), &about); err != nil || !about.Reload.Since.Equal(since) {
		t.Errorf("%v: %s", err, body)
	}

	write(t, file, "")
	d.log.await(t, refused+`.*abide\.yaml:1: has no settings any more, while the running configuration has 1 rule, 0 pools and 0 clients; .*--allow-empty`)
	d.log.forget()
	write(t, file, strings.Replace(good, "5", "6", 1))
	d.log.await(t, reloaded+": limits of api.test changed")
	for _, path := range []string{"/readyz", "/", "/api/v1/status"} {
		if code, body := d.ask(path); code != 200 || strings.Contains(body, "reload was refused") {
			t.Errorf("%s after a good file: %d %s", path, code, body)
		}
	}
}

func TestTheFaultsOfAFileThatSeveralAbidesReadArePrintedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	write(t, file, "data: data\n")
	serveIn(t, dir, nil)
	serveIn(t, dir, nil)
	write(t, file, "data: data\nlissten: 1\n")
	reload := launch(t, dir, nil, "reload", "--config", "abide.yaml")
	code, errs := reload.status(), reload.log.String()
	if code != 2 || strings.Count(errs, "keeps its last good configuration:\n") != 2 || strings.Count(errs, "abide.yaml:2: lissten: ") != 1 || strings.Contains(errs, "abide: ") {
		t.Errorf("a file with a fault, read by two abides: %d\n%s", code, errs)
	}
}

func TestAReloadThatTakesARestartIsRefusedInOneSentence(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	write(t, file, "metrics: {sites: 8}\n")
	d := serveIn(t, dir, nil)
	write(t, file, "metrics: {sites: 7}\n")
	code, out, errs := d.command("reload")
	want := "abide: the proxy at " + d.admin + " did not reload and keeps its last good configuration: it changes metrics.sites, which takes a restart; until then nothing else of it is applied\n"
	if code != 2 || out != "" || errs != want {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

func TestAFileThatCannotBeReadDoesNotReloadAnotherAbide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := serveIn(t, dir, nil)
	write(t, filepath.Join(dir, "broken.yaml"), "admin: [\n")
	for _, file := range []string{"missing.yaml", "broken.yaml"} {
		reload := launch(t, dir, nil, "reload", "--config", file)
		if code := reload.status(); code != 2 || reload.out.String() != "" || !strings.Contains(reload.log.String(), "nothing was reloaded: ") || !strings.Contains(reload.log.String(), file) {
			t.Errorf("reload --config %s: %d %s%s", file, code, reload.out, reload.log)
		}
		for _, command := range []string{"status", "sites"} {
			daemon := launch(t, dir, nil, command, "--config", file)
			if code := daemon.status(); code != 0 || !strings.Contains(daemon.log.String(), "cannot be read (") ||
				!strings.Contains(daemon.log.String(), "so the abide at "+d.admin+" is asked\n") {
				t.Errorf("%s --config %s: %d %s%s", command, file, code, daemon.out, daemon.log)
			}
		}
		if code, _, errs := d.command("status", "--config", file); code != 0 || errs != "" {
			t.Errorf("with --admin: %d %s", code, errs)
		}
	}
	reload := launch(t, dir, nil, "reload")
	if code := reload.status(); code != 0 || !strings.Contains(reload.out.String(), fmt.Sprintf("abide serve, process %d, admin %s:\nreloaded: ", d.cmd.Process.Pid, d.admin)) {
		t.Errorf("reload: %d %s%s", code, reload.out, reload.log)
	}
}

func TestAnEmptiedFileIsTakenWhereThatIsAllowed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	write(t, file, "sites: [{host: a.test}, {host: b.test}]\naccess: {clients: [{name: news, secret: canary}]}\n")
	d := serveIn(t, dir, nil, "--allow-empty")
	write(t, file, "# nothing\n")
	d.log.await(t, reloaded+": rules 2 → 0; rule a.test removed; rule b.test removed; clients 1 → 0; client news removed")
	if strings.Contains(d.log.String(), "canary") {
		t.Error("a secret is in the log")
	}
}

func TestReloadPrintsWhatHasChanged(t *testing.T) {
	var asked string
	address := console(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"reloaded":true,"changes":["rules 3 → 0","pool x: 4 → 5 tokens\u001b"]}`)
	})
	t.Setenv("ABIDE_ADMIN_TOKEN", "sesame-open")
	var out, errs bytes.Buffer
	code := execute(t.Context(), []string{"reload", "--admin", address}, strings.NewReader(""), &out, &errs)
	if code != 0 || out.String() != "the abide at "+address+":\nreloaded: rules 3 → 0\nreloaded: pool x: 4 → 5 tokens \n" || errs.Len() > 0 {
		t.Errorf("%d %s%s", code, &out, &errs)
	}
	if asked != "POST /api/v1/reload Bearer sesame-open" {
		t.Errorf("it asked %s", asked)
	}
}

func TestSitesListsThoseOfARunningProxy(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "sites: [{host: api.test, limits: [{concurrency: 1}]}]\n")
	d := serveIn(t, dir, []string{o.named()})
	if code, out, errs := d.command("sites"); code != 0 || errs != "" || !strings.Contains(out, "\napi.test         0 ") {
		t.Errorf("at first: %d\n%s%s", code, out, errs)
	}
	answered := make(chan int, 2)
	client := d.client(nil)
	for range 2 {
		go func() {
			answer, err := client.Get("http://api.test/held")
			if err != nil {
				answered <- 0
				return
			}
			answer.Body.Close()
			answered <- answer.StatusCode
		}()
	}
	o.wait(t, 1)
	d.await("/api/v1/holds", `"site":"api.test"`)
	// The configuration may be broken meanwhile.
	write(t, filepath.Join(dir, "abide.yaml"), "lissten: 1\n")
	code, out, errs := d.command("sites")
	for _, want := range []string{"SITE ", "LAST MINUTE", "MOST WAIT FOR", "STATE\napi.test ", "  1 in flight  ", "ok\n"} {
		if code != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("%d, %q is not in\n%s%s", code, want, out, errs)
		}
	}
	if code, out, _ := d.command("sites", "--json"); code != 0 || !strings.Contains(out, `"held":1,"longest_wait_seconds":`) || !strings.Contains(out, `"limited_by":"1 in flight"`) {
		t.Errorf("--json: %d %s", code, out)
	}
	code, out, errs = d.command("status")
	for _, want := range []string{"\nsites\n\nSITE ", "\napi.test ", "\n1 request waits\n"} {
		if code != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("status: %d, %q is not in\n%s%s", code, want, out, errs)
		}
	}
	code, out, errs = d.command("explain", "http://api.test/")
	if code != 0 || !strings.Contains(out, "1 request waits, 1 in flight") || !strings.Contains(errs, "the configuration has faults") || !strings.Contains(errs, "abide.yaml:1: lissten: ") {
		t.Errorf("explain: %d\n%s%s", code, out, errs)
	}
	o.letGo()
	for range 2 {
		if got := <-answered; got != 200 {
			t.Errorf("a request got %d", got)
		}
	}
	if _, out, _ := d.command("sites", "--json"); !strings.Contains(out, `"requests_last_minute":2`) {
		t.Errorf("afterwards: %s", out)
	}
}
