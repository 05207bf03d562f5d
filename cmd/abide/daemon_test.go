//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is for a machine that is busy; nothing here takes it otherwise.
const patience = 10 * time.Minute

// daemon is a real "abide serve" on free ports, in a directory of its own.
type daemon struct {
	t            *testing.T
	cmd          *exec.Cmd
	out, log     *transcript
	proxy, admin string // addresses, once it is up
	ended        chan struct{}
}

// serveIn starts abide in dir and waits until it is up.
func serveIn(t *testing.T, dir string, env []string, args ...string) *daemon {
	t.Helper()
	d := launch(t, dir, env, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	d.proxy = d.out.await(t, `proxy"?[ :]+"?http://([^\s"]+)`)[1]
	d.admin = d.out.await(t, `dashboard"?[ :]+"?http://([^\s"]+)/`)[1]
	return d
}

// launch starts abide in dir, which is also its home.
func launch(t *testing.T, dir string, env []string, args ...string) *daemon {
	t.Helper()
	return newDaemon(t, dir, "abide", env, args...)
}

// newDaemon starts a program in dir, which is also its home.
func newDaemon(t *testing.T, dir, program string, env []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, ended: make(chan struct{})}
	d.out, d.log = newTranscript(d.ended), newTranscript(d.ended)
	d.cmd = exec.Command(program, args...)
	d.cmd.Dir = dir
	d.cmd.Env = append(environ(dir), env...)
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = d.cmd.Wait() // its status is in ProcessState
		close(d.ended)
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.ended
		if t.Failed() {
			t.Logf("standard output:\n%s\nlog:\n%s", d.out, d.log)
		}
	})
	return d
}

func (d *daemon) signal(sig os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatalf("sending %v: %v", sig, err)
	}
}

// status waits for the end.
func (d *daemon) status() int {
	d.t.Helper()
	select {
	case <-d.ended:
		return d.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		_ = d.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines go into the log
		<-d.ended
		d.t.Fatal("abide does not end")
		return -1
	}
}

// client goes through the proxy. It is this test's own, so nothing is left of it.
func (d *daemon) client(user *url.Userinfo) *http.Client {
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: d.proxy, User: user})}
	d.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// get answers status and body of a GET through the proxy.
func (d *daemon) get(at string) (int, string) {
	d.t.Helper()
	return fetch(d.t, d.client(nil), at)
}

// ask answers status and body of a GET from the admin listener.
func (d *daemon) ask(path string) (int, string) {
	d.t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	return fetch(d.t, &http.Client{Transport: transport, Timeout: patience}, "http://"+d.admin+path)
}

func fetch(t *testing.T, c *http.Client, at string) (int, string) {
	t.Helper()
	answer, err := c.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// transcript is what a process writes. It can be waited for.
type transcript struct {
	ended <-chan struct{} // the process

	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed by the next write
}

func newTranscript(ended <-chan struct{}) *transcript {
	return &transcript{ended: ended, more: make(chan struct{})}
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.more)
	w.more = make(chan struct{})
	return w.text.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await waits until the pattern is in what was written, and answers the match.
func (w *transcript) await(t *testing.T, pattern string) []string {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	for over := false; ; {
		w.mu.Lock()
		found, more := wanted.FindStringSubmatch(w.text.String()), w.more
		w.mu.Unlock()
		if found != nil {
			return found
		}
		if over {
			t.Fatalf("the process ended without writing %q", pattern)
		}
		select {
		case <-more:
		case <-w.ended:
			over = true
		case <-timeout:
			t.Fatalf("nothing like %q was written", pattern)
		}
	}
}

// forget drops what was written, so that the next await is for something new.
func (w *transcript) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
}

// origin is a site of plain http on loopback. /held answers only once release is
// closed, and tells asked before.
type origin struct {
	url     string
	asked   chan struct{}
	release chan struct{}
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{asked: make(chan struct{}, 1000), release: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.url = "http://" + l.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			o.asked <- struct{}{}
			<-o.release
		}
		fmt.Fprint(w, "from the origin")
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() {
		o.letGo()
		_ = server.Close()
		<-served
	})
	return o
}

// named is the variable with which an abide, and nobody else, finds the origin as
// http://api.test/.
func (o *origin) named() string {
	return "ABIDE_EGRESS_RESOLVE=api.test:80=" + strings.TrimPrefix(o.url, "http://")
}

// wait waits until n requests for /held have arrived.
func (o *origin) wait(t *testing.T, n int) {
	t.Helper()
	timeout := time.After(patience)
	for range n {
		select {
		case <-o.asked:
		case <-timeout:
			t.Fatal("the requests do not arrive at the origin")
		}
	}
}

func (o *origin) letGo() {
	select {
	case <-o.release:
	default:
		close(o.release)
	}
}

// write puts a configuration in place as editors do: whole, by renaming.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
