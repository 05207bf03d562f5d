package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/ca"
)

// abide is a running process of the binary, in front of an origin.
type abide struct {
	proxy string // address
	admin string // address
	trust trust

	config, data string // paths
	process      *os.Process
	out          *banner
	log          bytes.Buffer // whole once it has ended
	end, wait    func()       // has it end, or does not; and waits for that
	killed       bool         // it was made to end in another way
}

// abideTime bounds the life of a process, whatever becomes of the test.
const abideTime = 3 * time.Minute

// quickRace has programs with the race detector end when they are done; by
// default they wait a second for reports of what still runs.
const quickRace = "GORACE=atexit_sleep_ms=0"

// The client that access.clients names where credentials are asked for.
const (
	clientName   = "news"
	clientSecret = "secret"
)

// setup is how an abide is configured.
type setup struct {
	intercept   string
	credentials bool
	more        string   // lines of configuration besides
	also        []string // other host:port that are the origin over TLS
	env         []string // variables besides
}

// write puts a configuration for the origin in a file.
func (s setup) write(t *testing.T, o *origin, data string) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "listen: %s:0\nadmin: %[1]s:0\ndata: %[2]q\nintercept: %[3]s\nlog: {level: debug}\n%[4]s\n",
		loopback, data, s.intercept, s.more)
	fmt.Fprintf(&text, "egress:\n  roots: %q\n  resolve:\n", originTrust.caFile)
	for _, host := range []string{apiHost, twitterHost} {
		fmt.Fprintf(&text, "    %q: %s\n    %q: %s\n", host+":80", o.plain, host+":443", o.secure)
	}
	for _, name := range s.also {
		fmt.Fprintf(&text, "    %q: %s\n", name, o.secure)
	}
	if len(s.also) > 0 {
		text.WriteString("  ports: any\n")
	}
	if s.credentials {
		fmt.Fprintf(&text, "access:\n  clients: [{name: %s, secret: %s}]\n", clientName, clientSecret)
	}
	path := filepath.Join(t.TempDir(), "abide.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startAbide runs the binary until the test ends, and has it end well then.
func startAbide(t *testing.T, s setup, o *origin) *abide {
	t.Helper()
	data := t.TempDir()
	a := &abide{config: s.write(t, o, data), data: data, trust: s.trust(t, data), out: &banner{complete: make(chan struct{})}}
	ctx, stop := context.WithTimeout(context.Background(), abideTime)
	cmd := exec.CommandContext(ctx, abideBinary, "--config", a.config)
	cmd.Env = append([]string{"HOME=" + data, quickRace}, s.env...)
	cmd.Stdout, cmd.Stderr = a.out, &a.log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.process = cmd.Process
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // an error after stop; how it ended is looked at below
	}()
	a.wait = func() { <-ended }
	a.end = func() { stop(); <-ended }
	t.Cleanup(func() {
		a.end()
		if a.killed {
			return
		}
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("abide ended with %v\n%s", cmd.ProcessState, &a.log)
		}
		if t.Failed() {
			t.Logf("abide said\n%s", &a.log)
		}
		if text := a.log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic") {
			t.Errorf("abide went wrong:\n%s", text)
		}
	})
	select {
	case <-a.out.complete:
	case <-ended:
		t.Fatalf("abide did not start: %v", cmd.ProcessState)
	}
	a.proxy, a.admin = a.out.address("proxy"), a.out.address("dashboard")
	return a
}

// banner is what abide prints at its start.
type banner struct {
	complete chan struct{} // closed when both addresses are there

	mu   sync.Mutex
	text bytes.Buffer
	done bool
}

func (b *banner) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p)
	if !b.done && b.find("proxy") != "" && b.find("dashboard") != "" {
		b.done = true
		close(b.complete)
	}
	return len(p), nil
}

func (b *banner) address(label string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.find(label)
}

func (b *banner) find(label string) string {
	found := regexp.MustCompile(`(?m)^ *` + label + ` +http://([^/\s]+)/?\s`).FindSubmatch(b.text.Bytes())
	if found == nil {
		return ""
	}
	return string(found[1])
}

// address is http://, with the name and secret where they are asked for.
func (s setup) address(host string) string {
	u := url.URL{Scheme: "http", Host: host}
	if s.credentials {
		u.User = url.UserPassword(clientName, clientSecret)
	}
	return u.String()
}

// trust makes abide's CA before abide does, and the files for clients that meet
// it. Where nothing is intercepted they meet the origin's own.
func (s setup) trust(t *testing.T, data string) trust {
	t.Helper()
	if s.intercept == "none" {
		return originTrust
	}
	authority, err := ca.Open(ca.Dir(data), ca.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var files trust
	files.caFile, files.bundleFile, err = authority.WriteBundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// get asks the admin listener.
func (a *abide) get(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	direct := &http.Transport{DisableKeepAlives: true} // and no proxy
	response, err := direct.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", path, response.Status, err, text)
	}
	return string(text)
}

// reaches waits until a metric is what it must become. Requests are counted once
// they are over for abide, which clients do not wait for.
func (a *abide) reaches(t *testing.T, want int, name string, labels ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		got := a.metric(t, name, labels...)
		if got == want {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Errorf("%s%s is %d in abide's metrics, not %d", name, labels, got, want)
			return
		}
	}
}

// metric is the sum of a metric's values whose labels hold all of these, each
// as it is written there: site="api.test".
func (a *abide) metric(t *testing.T, name string, labels ...string) int {
	t.Helper()
	total := 0.0
lines:
	for line := range strings.Lines(a.get(t, "/metrics")) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue lines
			}
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:len(rest)-1], 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		total += value
	}
	return int(total)
}
