//go:build unix

package main

import (
	"bufio"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServePrintsWhereItIsAndServes(t *testing.T) {
	o, d := newOrigin(t), serveIn(t, t.TempDir(), nil)
	if code, body := d.get(o.url); code != 200 || body != "from the origin" {
		t.Errorf("through the proxy: %d %q", code, body)
	}
	if code, _ := d.ask("/healthz"); code != 200 {
		t.Errorf("/healthz answers %d", code)
	}
	if code, _ := d.ask("/readyz"); code != 200 {
		t.Errorf("/readyz answers %d", code)
	}
	open := d.out.await(t, `open +http://(\S+)`)[1]
	for _, line := range []string{
		`eval "$(abide env --admin ` + d.admin + `)"`,
		"That uses http://" + open + ", where all https is opened",
		"On http://" + d.proxy + " https passes unread",
		"or write intercept: all.",
	} {
		if !strings.Contains(d.out.String(), line) {
			t.Errorf("%q is not in the banner", line)
		}
	}
}

// shell runs lines in a crawler's shell, which knows nothing but the user's home.
func shell(dir, lines string) (string, error) {
	cmd := exec.Command("sh", "-c", lines)
	cmd.Env = environ(dir)
	cmd.Dir = dir
	got, err := cmd.CombinedOutput()
	return string(got), err
}

func TestTheLineToCopyWorks(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--data", "else where"}, {"--data", "none"}, {"--intercept", "none"}, {"--intercept", "all"}, {"--listen-open", "off"}} {
		dir := t.TempDir()
		d := serveIn(t, dir, []string{newOrigin(t).named()}, args...)
		var lines []string
		for _, line := range strings.Split(d.out.await(t, `(?s)In the shell of the crawler:\n\n(.*?\n)\n`)[1], "\n") {
			lines = append(lines, strings.TrimSpace(line))
		}
		if _, page := d.ask("/"); strings.HasPrefix(lines[0], "eval ") && strings.Contains(page, "must trust") && !strings.Contains(html.UnescapeString(page), "<code>"+lines[0]+"</code>") {
			t.Errorf("%v: the page has another line than %s:\n%s", args, lines[0], page)
		}
		if got, err := shell(dir, strings.Join(lines, "\n")+"\ncurl -sS http://api.test/"); err != nil || !strings.HasSuffix(got, "from the origin") {
			t.Errorf("%v: %v: %s\n%s", args, err, got, strings.Join(lines, "\n"))
		}
	}
}

// TestTheLineToCopyWorksWithoutTheVariablesOfServe: another shell does not have them.
func TestTheLineToCopyWorksWithoutTheVariablesOfServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(file, []byte("log: {level: info}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := serveIn(t, dir, []string{newOrigin(t).named(), "ABIDE_DATA=" + filepath.Join(dir, "else where")}, "--config", file)
	line := d.out.await(t, `In the shell of the crawler:\n\n +(eval .*)\n`)[1]
	if got, err := shell(dir, line+"\ncurl -sS http://api.test/"); err != nil || got != "from the origin" { // and no word of another CA
		t.Errorf("%v: %s\n%s", err, got, line)
	}
}

// TestTheLinesToCopyWorkWhereAbideIsNotInThePath starts abide by its path, as make run does, in a
// directory with a name that a shell would change.
func TestTheLinesToCopyWorkWhereAbideIsNotInThePath(t *testing.T) {
	t.Parallel()
	there, err := exec.LookPath("abide")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(there)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, `a "$HOME" of its own`)
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "abide"), program, 0o700); err != nil {
		t.Fatal(err)
	}
	const without = "PATH=/usr/bin:/bin"
	d := newDaemon(t, dir, filepath.Join(bin, "abide"), []string{newOrigin(t).named(), without}, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	lines := d.out.await(t, `(?s)In the shell of the crawler:\n\n(.*?\n)\n`)[1]
	if !strings.HasPrefix(lines, "  export PATH=\"") {
		t.Errorf("the lines are\n%s", lines)
	}
	cmd := exec.Command("/bin/sh", "-c", lines+"curl -sS http://api.test/; command -v abide")
	cmd.Env, cmd.Dir = append(environ(dir), without), dir
	if got, err := cmd.CombinedOutput(); err != nil || string(got) != "from the origin"+filepath.Join(bin, "abide")+"\n" {
		t.Errorf("%v: %s\n%s", err, got, lines)
	}
}

func TestTheBannerSaysWhoseHTTPSIsOpened(t *testing.T) {
	d := serveIn(t, t.TempDir(), nil, "--intercept", "all")
	d.out.await(t, `All https is opened`)
	d = serveIn(t, t.TempDir(), nil, "--intercept", "none")
	d.out.await(t, `No https is opened \(intercept: none\)`)
	d = serveIn(t, t.TempDir(), []string{"ABIDE_LISTEN_OPEN=off"})
	d.out.await(t, `https passes unread except to hosts whose rules need its requests`)
	d = serveIn(t, t.TempDir(), nil, "--intercept", "all", "--data", "none")
	d.out.await(t, `http://`+d.admin+`/ca.pem`)
}

func TestTheHealthCheckAsksTheRunningProcess(t *testing.T) {
	dir := t.TempDir()
	d := serveIn(t, dir, nil)
	if got := launch(t, dir, []string{"ABIDE_ADMIN=" + d.admin}, "healthcheck"); got.status() != 0 {
		t.Errorf("a healthy process is said to be ill: %s", got.log)
	}
	// The file was broken after it started.
	write(t, filepath.Join(dir, "abide.yaml"), "nonsense: {")
	if got := launch(t, dir, nil, "healthcheck", "--admin", d.admin); got.status() != 0 {
		t.Errorf("a healthy process with a broken file is said to be ill: %s", got.log)
	}
	d.signal(syscall.SIGTERM)
	d.status()
	if got := launch(t, dir, []string{"ABIDE_ADMIN=" + d.admin}, "healthcheck"); got.status() != 1 {
		t.Error("a process that is gone is said to be healthy")
	}
}

func TestAStopFinishesWhatIsInFlight(t *testing.T) {
	o, d := newOrigin(t), serveIn(t, t.TempDir(), nil)
	answered := make(chan string, 1)
	client := d.client(nil)
	go func() {
		answer, err := client.Get(o.url + "/held")
		if err != nil {
			answered <- err.Error()
			return
		}
		answer.Body.Close()
		answered <- answer.Status
	}()
	o.wait(t, 1)
	d.signal(syscall.SIGTERM)
	d.log.await(t, "stopping: .*timeouts.drain")
	if code, body := d.ask("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
		t.Errorf("/readyz answers %d %s while abide stops", code, body)
	}
	o.letGo()
	if got := <-answered; got != "200 OK" {
		t.Errorf("what was in flight got %s", got)
	}
	if got := d.status(); got != 0 {
		t.Errorf("it ended with %d", got)
	}
}

// TestTheNextAbideStartsWhileTheOldOneDrains is kill $pid; abide serve &.
func TestTheNextAbideStartsWhileTheOldOneDrains(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	d := serveIn(t, dir, nil)
	client := d.client(nil)
	answers := make(chan string, 2)
	get := func(client *http.Client, path string) {
		answer, err := client.Get(o.url + path)
		if err != nil {
			answers <- err.Error()
			return
		}
		answer.Body.Close()
		answers <- answer.Status
	}
	go get(client, "/held")
	o.wait(t, 1)
	d.signal(syscall.SIGTERM)
	d.log.await(t, "stopping: ") // within bindGrace elsewhere, which no test hangs on
	defer o.letGo()
	next := launch(t, dir, nil, "serve", "--listen", d.proxy, "--admin", d.admin)
	next.log.await(t, `admin.listen: `+d.admin+` is that of an abide that is draining; waiting up to 34s`)
	next.proxy, next.admin = d.proxy, d.admin
	if got := launch(t, dir, nil, "healthcheck", "--admin", d.admin); got.status() != 1 || !strings.Contains(got.log.String(), "is draining") {
		t.Errorf("the health check of what drains: %s", got.log)
	}
	for command, said := range map[string]string{"status": ": draining, up ", "advise": "1. This abide is draining, stopping: no new connections"} {
		if got := launch(t, dir, nil, command, "--admin", d.admin); got.status() != 0 || !strings.Contains(got.out.String(), said) {
			t.Errorf("abide %s: %s%s", command, got.out, got.log)
		}
	}
	go get(next.client(nil), "/") // is not refused
	o.letGo()
	for range 2 {
		if got := <-answers; got != "200 OK" {
			t.Errorf("a client got %s", got)
		}
	}
	if got := d.status(); got != 0 {
		t.Errorf("the old one ended with %d", got)
	}
	next.out.await(t, "dashboard")
	if got := launch(t, dir, nil, "serve", "--listen", d.proxy, "--admin", d.admin); got.status() != 1 || !strings.Contains(got.log.String(), "in use by another process") {
		t.Errorf("beside one that serves: %s", got.log)
	}
}

func TestASecondSignalStopsAtOnce(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		o, d := newOrigin(t), serveIn(t, t.TempDir(), nil, "--drain", "1h")
		failed := make(chan struct{})
		client := d.client(nil)
		go func() {
			defer close(failed)
			if answer, err := client.Get(o.url + "/held"); err == nil {
				answer.Body.Close()
			}
		}()
		o.wait(t, 1)
		d.signal(sig)
		d.log.await(t, "stopping: ")
		d.signal(sig) // as timeout does, which cuts nothing
		ended := make(chan struct{})
		go func() {
			for each := time.NewTicker(100 * time.Millisecond); ; {
				select {
				case <-ended:
					return
				case <-each.C:
					_ = d.cmd.Process.Signal(sig)
				}
			}
		}()
		if got := d.status(); got != 128+int(sig) {
			t.Errorf("%v twice: it ended with %d", sig, got)
		}
		close(ended)
		<-failed
	}
}

// TestTwoSignalsAtOnceAreOneRequestToStop: timeout(1) signals abide and the group of abide.
func TestTwoSignalsAtOnceAreOneRequestToStop(t *testing.T) {
	s, now := catchSignals(t.Context()), time.Now()
	defer s.close()
	for _, c := range []struct {
		after time.Duration
		cuts  bool
	}{{0, false}, {0, false}, {900 * time.Millisecond, false}, {time.Second, true}} {
		s.take(syscall.SIGTERM, now.Add(c.after))
		if got := len(s.again) > 0; got != c.cuts || s.stop.Err() == nil {
			t.Errorf("%v later: %v", c.after, got)
		}
	}
}

func TestHangUpsAtAnyTimeDoNoHarm(t *testing.T) {
	dir := t.TempDir()
	// Reading a pipe holds the start until this test lets it go on.
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	d := launch(t, dir, nil, "--config", pipe, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	in, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until abide reads
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		d.signal(syscall.SIGHUP)
	}
	fmt.Fprintln(in, "log: {level: info}")
	in.Close()
	d.proxy = d.out.await(t, `proxy +http://(\S+)`)[1]
	// The pipe cannot be read again: what it said is kept, and nothing waits for it.
	d.log.await(t, "the configuration was reloaded: .*cannot be read again")
	for range 10 {
		d.signal(syscall.SIGHUP)
	}
	d.signal(syscall.SIGTERM)
	for range 10 {
		_ = d.cmd.Process.Signal(syscall.SIGHUP) // it may have ended
	}
	if got := d.status(); got != 0 {
		t.Errorf("it ended with %d", got)
	}
}

func TestAStopWhileStartingEnds(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	d := launch(t, dir, nil, "--config", pipe)
	in, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	d.signal(syscall.SIGTERM)
	d.signal(syscall.SIGTERM)
	if got := d.status(); got != 0 {
		t.Errorf("it ended with %d", got)
	}
}

func TestALogThatNobodyReadsDoesNoHarm(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	read, written, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("abide", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-access")
	cmd.Dir, cmd.Env = dir, environ(dir)
	cmd.Stdout, cmd.Stderr = written, written
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written.Close()
	defer cmd.Process.Kill()
	d := &daemon{t: t}
	for lines := bufio.NewScanner(read); d.proxy == "" && lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "proxy      http://"); ok {
			d.proxy = at
		}
	}
	read.Close()
	for range 5 {
		if code, _ := d.get(o.url); code != 200 {
			t.Errorf("it answers %d", code)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestAPortThatIsInUseIsSaidWithWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := taken.Addr().String()
	for _, one := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", at, "--admin", "127.0.0.1:0"}, "listen: " + at + " is in use by another process, maybe another abide; stop that one or choose another address with --listen, ABIDE_LISTEN or listen"},
		{[]string{"--listen", "127.0.0.1:0", "--admin", at}, "admin.listen: " + at + " is in use by another process, maybe another abide; stop that one or choose another address with --admin, ABIDE_ADMIN or admin.listen"},
	} {
		d := launch(t, t.TempDir(), nil, one.args...)
		if got := d.status(); got != 1 || !strings.Contains(d.log.String(), one.want) {
			t.Errorf("%q: it ended with %d and said %s", one.args, got, d.log)
		}
	}
}

func TestItsOwnProxyVariablesAreIgnored(t *testing.T) {
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sprung := make(chan struct{}, 1)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for {
			c, err := trap.Accept()
			if err != nil {
				return
			}
			c.Close()
			sprung <- struct{}{}
		}
	}()
	at := "http://user:canary@" + trap.Addr().String()
	var env []string
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		env = append(env, name+"="+at)
	}
	o, d := newOrigin(t), serveIn(t, t.TempDir(), append(env, "NO_PROXY=none.example"))
	// A name, because loopback addresses are never proxied by Go itself.
	site := strings.Replace(o.url, "127.0.0.1", "localhost", 1)
	if code, body := d.get(site); code != 200 || body != "from the origin" {
		t.Errorf("through the proxy: %d %q", code, body)
	}
	d.log.await(t, "HTTPS_PROXY names a proxy that abide does not use: .*egress.proxy")
	if strings.Contains(d.log.String(), "canary") {
		t.Error("the log has the password of a variable")
	}
	trap.Close()
	<-watching
	select {
	case <-sprung:
		t.Error("abide asked the proxy of its own environment")
	default:
	}
}

func TestRunPassesSignalsToItsCommand(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		const script = `trap 'echo caught; exit 7' TERM INT HUP USR1; echo ready; while :; do read line; done`
		read, hold, err := os.Pipe() // its input, which stays open and empty
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		d := &daemon{t: t, ended: make(chan struct{})}
		d.out = newTranscript(d.ended)
		d.cmd = exec.Command("abide", "run", "--", "sh", "-c", script)
		d.cmd.Dir, d.cmd.Env = dir, environ(dir)
		d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = read, d.out, os.Stderr
		// A session of its own: without a terminal, nobody else passes SIGINT on.
		d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := d.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read.Close()
		go func() { _ = d.cmd.Wait(); close(d.ended) }()
		d.out.await(t, "ready")
		d.signal(sig)
		d.out.await(t, "caught")
		if got := d.status(); got != 7 {
			t.Errorf("%v: it ended with %d", sig, got)
		}
		hold.Close()
	}
}

func TestRunSendsTheCommandThroughTheProxy(t *testing.T) {
	d := launch(t, t.TempDir(), []string{newOrigin(t).named()}, "run", "--", "curl", "-sS", "http://api.test/")
	if got := d.status(); got != 0 {
		t.Errorf("it ended with %d", got)
	}
	d.out.await(t, "^from the origin$")
}
