//go:build unix

package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

// secureSite is a site of https that allows 5 requests in any 5 seconds, announces that,
// and refuses what is more.
type secureSite struct {
	roots   string // file of its certificate
	resolve string // variable with which abide finds it as api.example.com

	mu      sync.Mutex
	began   time.Time // of the window
	used    int
	refused int
}

const (
	siteLimit  = 5
	siteWindow = 5 * time.Second
	crawl      = "https://api.example.com/[1-12]" // 12 URLs, for curl
)

func newSecureSite(t *testing.T, dir string) *secureSite {
	t.Helper()
	s := &secureSite{roots: filepath.Join(dir, "site.pem")}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	write(t, s.roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	s.resolve = "ABIDE_EGRESS_RESOLVE=api.example.com:443=" + server.Listener.Addr().String()
	return s
}

func (s *secureSite) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.began) >= siteWindow {
		s.began, s.used = now, 0
	}
	s.used++
	wait := fmt.Sprint(int((s.began.Add(siteWindow).Sub(now) + time.Second - 1) / time.Second))
	w.Header().Set("X-RateLimit-Limit", fmt.Sprint(siteLimit))
	w.Header().Set("X-RateLimit-Remaining", fmt.Sprint(max(siteLimit-s.used, 0)))
	w.Header().Set("X-RateLimit-Reset", wait)
	if s.used > siteLimit {
		s.refused++
		w.Header().Set("Retry-After", wait)
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// codes are curl's options to print a line with the status of each answer.
const codes = `curl -q -sS -o /dev/null -w '%{http_code}\n' `

func only200(t *testing.T, what, got string) {
	t.Helper()
	if n := strings.Count(got, "200\n"); n != 12 || strings.TrimSpace(strings.ReplaceAll(got, "200\n", "")) != "" {
		t.Errorf("%s: %q, want 12 times 200", what, got)
	}
}

func TestARunWithoutAConfigurationKeepsALimitOfHTTPS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSecureSite(t, dir)
	d := launch(t, dir, []string{s.resolve}, "run", "--egress-roots", s.roots, "--", "sh", "-c", codes+"'"+crawl+"'")
	if got := d.status(); got != 0 {
		t.Errorf("it ended with %d", got)
	}
	only200(t, "abide run", d.out.String())
}

func TestServeAndAbideEnvKeepALimitOfHTTPS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSecureSite(t, dir)
	d := serveIn(t, dir, []string{s.resolve}, "--egress-roots", s.roots)
	env := d.out.await(t, `eval "\$\(.*\)"`)[0]
	got, err := shell(dir, env+"\n"+codes+"'"+crawl+"'")
	if err != nil {
		t.Error(err)
	}
	only200(t, "abide env", got)
	if text := d.log.String(); strings.Contains(text, "level=warning") {
		t.Errorf("there is something to warn of:\n%s", text)
	}
	// The same without flags: the abide that serves is found in the data directory.
	if other, err := shell(dir, "abide env --admin off"); err != nil || !strings.Contains(other, "HTTPS_PROXY=http://"+d.out.await(t, `open +http://(\S+)`)[1]) {
		t.Errorf("%v: %s", err, other)
	}
}

func TestAPinnedClientWorksAfterSomeSecondsAndOverARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSecureSite(t, dir)
	pinned := codes + "--cacert " + s.roots + " https://api.example.com/"
	start := func() (d *daemon, ask func() (string, error)) {
		d = serveIn(t, dir, []string{s.resolve}, "--egress-roots", s.roots)
		env := d.out.await(t, `eval "\$\(.*\)"`)[0]
		return d, func() (string, error) { return shell(dir, env+"\n"+pinned) }
	}
	d, ask := start()
	if got, err := ask(); err == nil {
		t.Fatalf("a client that trusts another CA accepts abide's: %s", got)
	}
	for tries := 0; ; tries++ {
		if got, err := ask(); err == nil {
			break
		} else if tries == 10_000 {
			t.Fatalf("%v: %s", err, got)
		}
	}
	d.log.await(t, `does not accept the certificate of abide's CA for api.example.com: its https to this host passes unread for 2 minutes, then abide tries again`)
	if got, err := shell(dir, "abide explain --admin "+d.admin+" https://api.example.com/"); err != nil || !strings.Contains(got, "because the client refused abide's certificate") || strings.Contains(got, "tunnelled") {
		t.Errorf("abide explain: %v: %s", err, got)
	}
	if got, err := ask(); err != nil || got != "200\n" {
		t.Errorf("after the refusal: %v: %s", err, got)
	}
	if n := strings.Count(d.log.String(), "level=warning"); n != 1 {
		t.Errorf("%d warnings", n)
	}
	if _, metrics := d.ask("/metrics"); !strings.Contains(metrics, `abide_https_unread_total{reason="refused",site="api.example.com"} 2`) {
		t.Error("the tunnels are not counted with their reason")
	}
	d.signal(syscall.SIGTERM)
	d.status()

	d, ask = start()
	for range 2 {
		if got, err := ask(); err != nil || got != "200\n" {
			t.Errorf("after a restart: %v: %s", err, got)
		}
	}
	const still = "https of the client 127.0.0.1 to api.example.com passes unread until "
	if n := strings.Count(d.log.String(), still); n != 1 {
		t.Errorf("after a restart the log says %d times that the host passes unread", n)
	}
	d.signal(syscall.SIGHUP)
	d.log.await(t, "reloaded")
	if got, err := ask(); err == nil {
		t.Errorf("it is not tried again after SIGHUP: %s", got)
	}
}

// TestOneProgramWithoutTheCADoesNotMakeAnotherUnread: both run at 127.0.0.1. --cacert says for each which
// certificate alone it accepts: that of the site, or that of abide's CA.
func TestOneProgramWithoutTheCADoesNotMakeAnotherUnread(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux says which program it is")
		return
	}
	t.Parallel()
	for _, first := range []string{"the one without", "the one with"} {
		dir := t.TempDir()
		address, roots := secureOrigin(t, dir)
		d := serveIn(t, dir, []string{"ABIDE_EGRESS_RESOLVE=api.example.com:443=" + address}, "--egress-roots", roots)
		env := d.out.await(t, `eval "\$\(.*\)"`)[0] + "\n"
		ask := func(root, page string) (string, error) {
			return shell(dir, env+codes+"--cacert "+root+" https://api.example.com/"+page)
		}
		trusting := func(when string) {
			t.Helper()
			if got, err := ask(filepath.Join(dir, ".local/state/abide/ca/ca.pem"), "new"); err != nil || got != "200\n" {
				t.Errorf("%s begins: the program with the CA is not opened %s: %v: %s", first, when, err, got)
			}
		}
		if first == "the one with" {
			trusting("at first")
		}
		for tries := 0; ; tries++ {
			if got, err := ask(roots, fmt.Sprint(tries)); err == nil {
				break
			} else if tries == 10_000 {
				t.Fatalf("%s begins: the program without the CA is never tunnelled: %v: %s", first, err, got)
			}
			if first == "the one with" {
				trusting("between")
			}
		}
		d.log.await(t, `does not accept the certificate of abide's CA for api.example.com.* program=curl-`)
		for range 3 {
			trusting("afterwards")
			if got, err := ask(roots, "again"); err != nil || got != "200\n" {
				t.Errorf("%s begins: the program without the CA is not tunnelled any more: %v: %s", first, err, got)
			}
		}
		if n := strings.Count(d.log.String(), "level=warning"); n != 1 {
			t.Errorf("%d warnings:\n%s", n, d.log.String())
		}
	}
}

func TestHTTPSThatPassesUnreadIsSaidEverywhere(t *testing.T) {
	dir := t.TempDir()
	s := newSecureSite(t, dir)
	d := serveIn(t, dir, []string{s.resolve}, "--egress-roots", s.roots)
	for range 3 {
		if got, err := shell(dir, codes+"--cacert "+s.roots+" -x http://"+d.proxy+" https://api.example.com/"); err != nil || got != "200\n" {
			t.Fatalf("%v: %s", err, got)
		}
	}
	const remedy = `start the crawler with "abide run", or set its environment with eval "$(abide env)", or write intercept: all`
	d.log.await(t, `https to api\.example\.com passes unread \(intercept: auto\), so limits there are not seen: .*abide env.*intercept: all`)
	if n := strings.Count(d.log.String(), "passes unread"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
	if _, text := d.ask("/metrics"); !strings.Contains(text, `abide_https_unread_total{reason="auto",site="api.example.com"} 3`) {
		t.Error("there is no metric")
	}
	var about status.Process
	if asked(t, d, "/api/v1/status", &about); about.Unread == nil || about.Unread.Connections != 3 || about.Unread.Sites[0].Reasons[0].Remedy != remedy {
		t.Errorf("/api/v1/status has %+v", about.Unread)
	}
	var site struct {
		Unread *status.SiteUnread `json:"https_unread"`
	}
	if asked(t, d, "/api/v1/sites/api.example.com", &site); site.Unread == nil || site.Unread.Connections != 3 || site.Unread.Reasons[0].Reason != "auto" {
		t.Errorf("/api/v1/sites has %+v", site.Unread)
	}
	if _, text := d.ask("/"); !strings.Contains(text, "https that passed unread") || !strings.Contains(text, "abide run") {
		t.Error("the page does not say it")
	}
	if got, err := shell(dir, "abide status --admin "+d.admin); err != nil || !strings.Contains(got, "3 https connections passed unread") || !strings.Contains(got, remedy) {
		t.Errorf("abide status: %v: %s", err, got)
	}
}

func TestHTTPSThatIsMeantToPassUnreadIsCountedAndNotLogged(t *testing.T) {
	for args, reason := range map[string]string{"intercept: none": "none", "sites: [{host: api.example.com, learn: false}]": "excluded"} {
		dir := t.TempDir()
		s := newSecureSite(t, dir)
		write(t, filepath.Join(dir, "abide.yaml"), args)
		d := serveIn(t, dir, []string{s.resolve}, "--egress-roots", s.roots)
		if got, err := shell(dir, codes+"--cacert "+s.roots+" -x http://"+d.proxy+" https://api.example.com/"); err != nil || got != "200\n" {
			t.Fatalf("%v: %s", err, got)
		}
		if _, text := d.ask("/metrics"); !strings.Contains(text, `abide_https_unread_total{reason="`+reason+`",site="api.example.com"} 1`) {
			t.Errorf("%s: it is not counted", args)
		}
		if text := d.log.String(); strings.Contains(text, "level=warning") {
			t.Errorf("%s: there is something to warn of:\n%s", args, text)
		}
	}
}

func TestAWrittenOpenListenerThatIsTakenIsAnError(t *testing.T) {
	taken := serveIn(t, t.TempDir(), nil)
	d := launch(t, t.TempDir(), nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--listen-open", taken.proxy)
	if got := d.status(); got != 1 {
		t.Errorf("it ended with %d", got)
	}
	d.log.await(t, `listen_open: `+taken.proxy+` is in use.*choose another address with --listen-open, ABIDE_LISTEN_OPEN or listen_open`)
}

// asked reads the JSON that the admin listener answers.
func asked(t *testing.T, d *daemon, path string, to any) {
	t.Helper()
	code, text := d.ask(path)
	if err := json.Unmarshal([]byte(text), to); err != nil || code != http.StatusOK {
		t.Errorf("%s: %d, %v", path, code, err)
	}
}

func TestAbideNeverDialsItsOpenListener(t *testing.T) {
	d := serveIn(t, t.TempDir(), []string{"ABIDE_EGRESS_PORTS=any"})
	open := d.out.await(t, `open +http://(\S+)`)[1]
	if code, text := d.get("http://" + open + "/"); code < 400 || !strings.Contains(text, "urn:abide:") {
		t.Errorf("it answers %d %s", code, text)
	}
}

func TestAnotherOpenListenerTakesARestart(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "queue: {max: 5000}")
	d := serveIn(t, dir, nil)
	write(t, filepath.Join(dir, "abide.yaml"), "listen_open: 127.0.0.1:0")
	d.log.await(t, `it changes listen_open, which takes a restart`)
	// What is not written follows intercept, without a restart.
	write(t, filepath.Join(dir, "abide.yaml"), "intercept: none")
	d.log.await(t, `the configuration was reloaded`)
}
