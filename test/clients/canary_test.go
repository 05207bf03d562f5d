package clients

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// canaries are the secrets of four pools, one for each way to send them.
type canaries struct {
	head  [3]canary // Authorization
	query [2]canary // a parameter
	basic [2]canary // of id:secret
	app   [3]canary // of id:secret, that are exchanged
	given canary    // for that
	fresh canary    // that is in a file with a fault, and was never in force
}

const loginHost = "login.test"

func newCanaries() *canaries {
	var c canaries
	for i := range c.head {
		c.head[i] = newCanary("head.test", "old.head.test")
	}
	for i := range c.query {
		c.query[i] = newCanary("query.test", "old.query.test")
	}
	for i := range c.basic {
		c.basic[i] = newCanary("basic.test", "old.basic.test")
	}
	for i := range c.app {
		c.app[i] = newCanary(loginHost)
	}
	c.given = newCanary("app.test", "old.app.test")
	c.fresh = newCanary()
	return &c
}

func (c *canaries) all() []canary {
	return append(slices.Concat(c.head[:], c.query[:], c.basic[:], c.app[:]), c.given, c.fresh)
}

// hosts are those with a pool, as they speak HTTP/2 and as they do not.
func (c *canaries) hosts() []string {
	return []string{
		"head.test", "query.test", "basic.test", "app.test",
		"old.head.test", "old.query.test", "old.basic.test", "old.app.test",
	}
}

// write puts the tokens in dir, and answers the configuration of their pools.
func (c *canaries) write(t *testing.T, dir string) string {
	t.Helper()
	c.writeCSV(t, dir, "")
	for i, one := range c.basic {
		secretFile(t, filepath.Join(dir, "basic", fmt.Sprint("b", i)), fmt.Sprintf("id%d:%s\n", i, one.secret))
	}
	var apps strings.Builder
	for i, one := range c.app {
		fmt.Fprintf(&apps, "{label: a%d, secret: \"app%d:%s\"}, ", i, i, one.secret)
	}
	var sites strings.Builder
	for _, pool := range []string{"head", "query", "basic", "app"} {
		fmt.Fprintf(&sites, "  - {host: [%s.test, old.%[1]s.test], pool: %[1]s}\n", pool)
	}
	return fmt.Sprintf(`
breaker: {failures: 0}
pools:
  head: {file: %q, column: token, label: name, exhausted: refuse}
  query: {env: QUERY_TOKENS, put: "query: api_key={token}", exhausted: refuse}
  basic: {dir: %q, put: "basic: {token}", exhausted: refuse}
  app: {tokens: [%s], oauth2: {token_url: "https://%s/token"}, exhausted: refuse}
sites:
%s`, filepath.Join(dir, "head.csv"), filepath.Join(dir, "basic"), &apps, loginHost, &sites)
}

// writeCSV writes the tokens of head, and a line more.
func (c *canaries) writeCSV(t *testing.T, dir, more string) {
	t.Helper()
	text := "name,token\n"
	for i, one := range c.head {
		text += fmt.Sprintf("h%d,%s\n", i, one.secret)
	}
	secretFile(t, filepath.Join(dir, "head.csv"), text+more)
}

func secretFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *canaries) env() []string {
	return []string{
		"QUERY_TOKENS=" + c.query[0].secret + "," + c.query[1].secret,
		"ABIDE_LOG_LEVEL=trace", "ABIDE_LOG_ACCESS=true",
	}
}

// login is the server that apps are exchanged at. It knows one of them, and says
// what it got to the others.
func (c *canaries) login(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if plain, err := url.QueryUnescape(secret); err == nil {
		secret = plain
	}
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-You", id+" "+secret)
	switch {
	case secret == c.app[0].secret:
		fmt.Fprintf(w, `{"access_token": %q, "token_type": "bearer", "expires_in": 3600}`, c.given.secret)
	case secret == c.app[1].secret:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error": "invalid_client", "error_description": "no such secret: %s", "error_uri": "https://login.test/?%s"}`, secret, secret)
	default:
		fmt.Fprintf(w, "%s is what it says, and this is no JSON", secret)
	}
}

// echo is an origin whose headers repeat what was sent, and that fails in every way.
func (c *canaries) echo(w http.ResponseWriter, r *http.Request) {
	if r.Host == loginHost {
		c.login(w, r)
		return
	}
	credential := strings.Join(r.Header["Authorization"], ", ")
	user, password, _ := r.BasicAuth()
	for name, value := range map[string]string{
		"X-Authorization": credential, "X-Pair": user + ":" + password, "X-Password": password, "X-Uri": r.RequestURI, "X-Key": r.URL.Query().Get("api_key"),
		"X-Lower": lower(url.QueryEscape(r.URL.Query().Get("api_key"))), "X-Escaped": url.QueryEscape(credential), "Set-Cookie": "key=" + url.PathEscape(credential),
		"Content-Location": r.RequestURI, "Etag": `"` + credential + `"`,
	} {
		if strings.Trim(value, ": ") != "" {
			w.Header().Set(name, value)
		}
	}
	status := http.StatusOK
	switch r.URL.Path {
	case "/redirect":
		w.Header().Set("Location", "https://"+r.Host+"/landed?"+r.URL.RawQuery)
		status = http.StatusFound
	case "/early":
		w.Header().Set("Link", "<"+r.RequestURI+credential+">; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	case "/trailer":
		w.Header().Set("Trailer", "X-Last")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Last", credential+r.RequestURI)
		return
	case "/reset":
		panic(http.ErrAbortHandler)
	case "/torn":
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "half of it")
		panic(http.ErrAbortHandler)
	case "/malformed":
		if raw(w, "HTTP/1.1 200 OK\r\nX-Echo "+credential+r.RequestURI+" : x\r\n\r\n") {
			return
		}
	case "/upgrade":
		if raw(w, "HTTP/1.1 101 "+credential+"\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-Echo: "+credential+r.RequestURI+"\r\n\r\n") {
			return
		}
	case "/limited":
		w.Header().Set("X-RateLimit-Limit", "100")
		w.Header().Set("X-RateLimit-Remaining", "50")
		w.Header().Set("X-RateLimit-Bucket", credential+r.RequestURI)
		w.Header().Set("X-RateLimit-Reset", "60")
	case "/429":
		w.Header().Set("Retry-After", "1")
		w.Header().Set("X-RateLimit-Reason", credential)
		status = http.StatusTooManyRequests
	case "/401":
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+credential+r.RequestURI+`"`)
		status = http.StatusUnauthorized
	default:
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "you sent %s", credential) // its own body, which nobody may change
}

// raw answers anything, where that can be done.
func raw(w http.ResponseWriter, text string) bool {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return false
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	return err == nil
}

// lower has percent signs with small letters, as some write them.
func lower(escaped string) string {
	return strings.NewReplacer("%2B", "%2b", "%2F", "%2f", "%7E", "%7e").Replace(escaped)
}

// TestACanaryIsNowhereButAtItsOwnSite has the binary tell everything that it can
// tell, and looks for the tokens in all of it. That the parts do not is in the tests of
// the packages tokens and proxy, and of the configuration in those of cmd/abide.
func TestACanaryIsNowhereButAtItsOwnSite(t *testing.T) {
	t.Parallel()
	c, dir := newCanaries(), t.TempDir()
	o := startOriginThat(t, c.echo)
	s := setup{intercept: "auto", more: c.write(t, dir), env: c.env(), also: []string{loginHost + ":443"}}
	for _, host := range c.hosts() {
		s.also = append(s.also, host+":443")
	}
	a := startAbide(t, s, o)
	outputs := &outputs{texts: map[string]string{}}
	c.crawl(t, a, outputs)
	c.operate(t, a, outputs, dir)
	if runtime.GOOS == "linux" {
		outputs.read(t, fmt.Sprintf("/proc/%d/cmdline", a.process.Pid))
	}
	a.end()
	outputs.add("the log", a.log.String())
	outputs.add("what it printed", a.out.text.String())
	files := 0
	err := filepath.WalkDir(a.data, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files++
			outputs.read(t, path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
	for _, what := range slices.Sorted(maps.Keys(outputs.texts)) {
		for _, one := range c.all() {
			if around := one.in(outputs.texts[what]); around != "" {
				t.Errorf("a secret of %q is in %s: %s", one.hosts, what, around)
				break
			}
		}
	}
	c.arrived(t, o)
	asked := map[string]bool{}
	for _, r := range o.requests() {
		path, _, _ := strings.Cut(r.URI, "?")
		asked[r.Host+path] = true
	}
	for _, host := range c.hosts() {
		for _, path := range canaryPaths {
			if !asked[host+path] {
				t.Errorf("%s was not asked for %s, so this proves nothing", host, path)
			}
		}
	}
}

// arrived looks whether every token reached its site, and no other.
func (c *canaries) arrived(t *testing.T, o *origin) {
	t.Helper()
	for _, one := range c.all() {
		reached := map[string]bool{}
		for _, r := range o.requests() {
			var text strings.Builder
			_ = r.Header.Write(&text) // a Builder takes everything
			text.WriteString(r.URI)
			if one.in(text.String()) != "" {
				reached[r.Host] = true
			}
		}
		for host := range reached {
			if !slices.Contains(one.hosts, host) {
				t.Errorf("a secret of %q reached %s", one.hosts, host)
			}
		}
		if len(one.hosts) > 0 && len(reached) == 0 {
			t.Errorf("a secret of %q did not reach it, so this proves nothing", one.hosts)
		}
	}
}

// outputs are what abide has said, and where.
type outputs struct {
	mu    sync.Mutex
	texts map[string]string
}

func (o *outputs) add(what, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.texts[what] += text
}

func (o *outputs) read(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	o.add(path, string(text))
}

// canaryPaths are how a site answers.
var canaryPaths = []string{
	"/200", "/204", "/redirect", "/early", "/trailer", "/limited", "/404", "/500", "/503",
	"/reset", "/torn", "/malformed", "/403", "/401", "/429",
}

// canaryTokens are those of a host that can be used, by the names that operators know.
var canaryTokens = map[string][]string{
	"head.test": {"head/h0", "head/h1", "head/h2"}, "query.test": {"query/1", "query/2"},
	"basic.test": {"basic/b0", "basic/b1"}, "app.test": {"app/a0"},
}

// crawl has every site answer in every way. Bodies are the sites' own, but for those
// of abide's errors.
func (c *canaries) crawl(t *testing.T, a *abide, out *outputs) {
	t.Helper()
	for _, path := range canaryPaths {
		for _, host := range c.hosts() {
			for _, token := range canaryTokens[strings.TrimPrefix(host, oldPrefix)] {
				if answer := a.operate(t, "POST", "/api/v1/tokens/"+token+"/enable"); answer.status != http.StatusOK {
					t.Errorf("%s: %s%s", token, answer.head, answer.body)
				}
			}
			for range 3 { // with each token
				answer, _ := a.try(t, host+":443", "GET "+path+"?q=1&api_key=dummy HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: Bearer dummy\r\nAbide-Retry: none\r\nAbide-Max-Wait: 50ms\r\nTE: trailers\r\n\r\n")
				text := answer.head
				if strings.HasPrefix(answer.header.Get("Content-Type"), "application/problem+json") {
					text += answer.body
				}
				out.add("an answer to "+path, text)
			}
		}
	}
	// And once more as clients ask who let abide do what it can.
	for _, host := range c.hosts() {
		for _, path := range []string{"/401", "/reset"} {
			answer, _ := a.try(t, host+":443", "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nAbide-Max-Wait: 1s\r\n\r\n")
			out.add("an answer to "+path, answer.head)
		}
		answer, _ := a.try(t, host+":443", "GET /upgrade?q=1 HTTP/1.1\r\nHost: "+host+"\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAbide-Max-Wait: 1s\r\n\r\n")
		out.add("an answer to /upgrade", answer.head)
	}
	for _, answer := range []said{
		a.speak(t, "", "GET http://head.test/ HTTP/1.1\r\nHost: head.test\r\n\r\n"),
		a.speak(t, "head.test:443", "TRACE / HTTP/1.1\r\nHost: head.test\r\n\r\n"),
		a.speak(t, "head.test:443", "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"),
		a.speak(t, "head.test:443", "GET / HTTP/1.1\r\nHost: head.test\r\nAbide-Cost: much\r\n\r\n"),
	} {
		out.add("an answer of abide's", answer.head+answer.body)
	}
}

// operate asks the admin listener and the commands for everything, also with tokens
// that have a fault.
func (c *canaries) operate(t *testing.T, a *abide, out *outputs, dir string) {
	t.Helper()
	look := func() {
		for _, path := range []string{
			"/", "/style.css", "/metrics", "/healthz", "/readyz", "/ca.pem", "/api/v1/status", "/api/v1/holds", "/api/v1/tokens",
			"/api/v1/tokens/head", "/api/v1/tokens/query", "/api/v1/tokens/basic", "/api/v1/tokens/app", "/api/v1/tokens/none", "/api/v1/none",
			"/api/v1/explain?url=https://head.test/401", "/api/v1/explain?url=https://query.test/429?api_key=dummy", "/api/v1/explain?url=https://app.test/",
		} {
			answer := a.operate(t, "GET", path)
			out.add("the admin listener's "+path, answer.head+answer.body)
		}
		for _, args := range [][]string{
			{"check"},
			{"explain", "https://head.test/401"},
			{"explain", "https://query.test/200?q=1"},
			{"explain", "https://old.basic.test/429"},
			{"status"},
			{"status", "--json"},
			{"status", "--site", "app.test"},
		} {
			out.add("abide "+strings.Join(args, " "), a.command(t, c.env(), args...))
		}
	}
	post := func(path string) said {
		answer := a.operate(t, "POST", path)
		out.add("the admin listener's "+path, answer.head+answer.body)
		return answer
	}
	look()
	for _, more := range []string{
		"new," + c.fresh.secret + " x\n",                             // a space
		"new," + c.fresh.secret + "\x00\n",                           // a NUL
		c.fresh.secret + "," + c.fresh.secret + "\n",                 // a label that is a secret
		"h9," + c.fresh.secret + ",\"" + c.fresh.secret + "\n",       // an open quote
		"h0," + c.fresh.secret + "\nh0," + c.fresh.secret + "\x7f\n", // a label twice
	} {
		c.writeCSV(t, dir, more)
		if answer := post("/api/v1/reload"); answer.status == http.StatusOK {
			t.Errorf("tokens with a fault were taken: %q", more)
		}
		out.add("abide check", a.command(t, c.env(), "check"))
	}
	c.writeCSV(t, dir, "")
	if answer := post("/api/v1/reload"); answer.status != http.StatusOK {
		t.Errorf("%s%s", answer.head, answer.body)
	}
	post("/api/v1/tokens/head/h0/disable")
	look()
	post("/api/v1/tokens/head/h0/enable")
	post("/api/v1/tokens/head/none/enable")
}

// command is what a command of the binary prints, however it ends.
func (a *abide) command(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), abideBinary, append(args[:1:1], append([]string{"--config", a.config, "--admin", a.admin}, args[1:]...)...)...)
	if args[0] == "check" {
		cmd.Args = []string{abideBinary, "check", a.config}
	}
	cmd.Env = append([]string{"HOME=" + a.data, quickRace}, env...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if len(out) == 0 {
		t.Errorf("abide %q said nothing: %v", args, err)
	}
	return string(out)
}

// TestWhatAProcessLeavesWhenItIsKilledHasNoToken: its goroutines, with a token in
// the hands of some. That a fault of abide's own tells none is in the tests of proxy.
func TestWhatAProcessLeavesWhenItIsKilledHasNoToken(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // which has no such signal
	}
	c := newCanary(apiHost)
	arrived, gone := make(chan string, 1), make(chan struct{})
	o := startOriginThat(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Authorization")
		<-gone
	})
	a := startAbide(t, setup{intercept: "auto", more: "pools: {p: {tokens: [{label: one, secret: \"" + c.secret + "\"}]}}\nsites: [{host: api.test, pool: p}]"}, o)
	a.killed = true
	defer close(gone)
	client := a.client(t)
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		if response, err := client.Get("https://api.test/"); err == nil {
			response.Body.Close()
		}
	})
	if got := <-arrived; got != "Bearer "+c.secret {
		t.Errorf("it came with %q", got)
	}
	if err := a.process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	a.wait()
	if text := a.log.String(); !strings.Contains(text, "goroutine ") || c.in(text) != "" {
		t.Errorf("it left\n%s", text)
	}
}
