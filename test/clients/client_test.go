package clients

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/ca"
)

// client is a real client: a script, with what is known of it.
type client struct {
	name    string
	command []string // what runs the script, and the script
	options []string // what the script gets after the bases
	needs   string   // program or package that the script uses
	host    string   // "" is api.test
	calls   string   // a line before the steps, "" for none
	extra   []string // requests besides those of the steps: METHOD URL

	// The version of HTTP that the client says it spoke: http and https. "" is
	// HTTP/1.1, "-" that it does not say.
	plain, secure string
	// connections are the most that the client makes to the proxy for both bases,
	// authenticating with credentials where that is more. Who keeps them all
	// needs two; what is more is the client's doing: HTTP/1.0 and axios close
	// them, wget runs once for each step, aiohttp keeps none for plain http, and
	// undici and got leave the one on which a redirect still arrives.
	connections, authenticating int
	// absolute clients ask for https without CONNECT.
	absolute bool
	// gets clients do the steps alone that any program that downloads can do.
	gets bool
}

const (
	python = "/usr/bin/python3" // Debian's: its packages are not another's
	node   = "node"
)

// clientTime bounds one client. They take a second or two, browsers five; a busy machine
// more.
const clientTime = 3 * time.Minute

func script(command, file string) []string { return []string{command, file} }

var clients = []client{
	{name: "curl", command: script("sh", "curl.sh"), needs: "curl", options: []string{"--http1.1"}, connections: 2},
	{name: "curl with HTTP2", command: script("sh", "curl.sh"), needs: "curl", options: []string{"--http2"}, secure: "HTTP/2", connections: 2},
	{name: "curl with HTTP1.0", command: script("sh", "curl.sh"), needs: "curl", options: []string{"--http1.0"}, plain: "HTTP/1", secure: "HTTP/1", connections: 14},
	{name: "curl that waits for a 407", command: script("sh", "curl.sh"), needs: "curl", options: []string{"--proxy-anyauth"}, secure: "HTTP/2", connections: 2},
	{name: "wget", command: script("sh", "wget.sh"), needs: "wget", connections: 12},
	{name: "requests", command: script(python, "requests_client.py"), needs: "requests", connections: 2},
	{name: "aiohttp", command: script(python, "aiohttp_client.py"), needs: "aiohttp", connections: 8},
	{name: "httpx", command: script(python, "httpx_client.py"), needs: "httpx", secure: "HTTP/2", connections: 2},
	{name: "scrapy", command: script(python, "scrapy_client.py"), needs: "scrapy", connections: 2},
	{
		name: "tweepy", command: script(python, "tweepy_client.py"), needs: "tweepy", host: twitterHost, connections: 3,
		calls: "calls 42 abide 7 20 just-setting-up",
		extra: []string{
			"GET https://api.twitter.com/2/users/by/username/abide",
			"POST https://api.twitter.com/2/tweets",
			"GET https://api.twitter.com/1.1/statuses/show.json?id=20",
		},
	},
	{name: "undici", command: script(node, "undici_client.mjs"), needs: "undici", plain: "-", secure: "-", connections: 4},
	{name: "axios", command: script(node, "axios_client.mjs"), needs: "axios", connections: 9},
	{name: "got", command: script(node, "got_client.mjs"), needs: "got", connections: 4},
	{name: "needle", command: script(node, "needle_client.mjs"), needs: "needle", connections: 3, absolute: true},
	{name: "node", command: script(node, "https_client.mjs"), needs: "https-proxy-agent", connections: 2},
	{name: "java", command: script("java", "Client.java"), secure: "HTTP/2", connections: 2, authenticating: 3},
	{name: "go", command: []string{os.Args[0]}, secure: "HTTP/2.0", connections: 2},
}

// present fails the test when the client is not on this machine.
func (c *client) present(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath(c.command[0]); err != nil {
		t.Fatalf("%s is not installed here; `make test` installs it: %v", c.command[0], err)
	}
	var err error
	switch c.command[0] {
	case "sh":
		_, err = exec.LookPath(c.needs)
	case python:
		_, err = os.Stat(filepath.Join("/usr/lib/python3/dist-packages", c.needs)) // Debian's
	default:
		if filepath.Base(c.command[0]) != node {
			break
		}
		_, err = os.Stat(filepath.Join("node_modules", c.needs))
	}
	if err != nil {
		t.Fatalf("%s is not installed here; `make test` installs it: %v", c.needs, err)
	}
}

func (c *client) bases() []string {
	host := c.host
	if host == "" {
		host = apiHost
	}
	return []string{"http://" + host, "https://" + host}
}

func (c *client) arguments() []string {
	return append(append(c.command[1:len(c.command):len(c.command)], c.bases()...), c.options...)
}

// run runs a command with nothing of this process's environment but where
// programs are, and what env sets. It returns what it printed.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	together(cmd)
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "LC_ALL=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1", goClientVariable + "=1", quickRace,
	}, env...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %q: %v (%v)\n%s%s", name, args, err, ctx.Err(), &out, &log)
	}
	return out.String()
}

func TestRealClientsWorkThroughAbide(t *testing.T) {
	t.Parallel()
	for _, with := range []struct {
		name string
		setup
	}{
		{"intercepted", setup{intercept: "all"}},
		{"intercepted with credentials", setup{intercept: "all", credentials: true}},
		{"tunnelled with credentials", setup{intercept: "none", credentials: true}},
	} {
		for _, c := range clients {
			t.Run(c.name+" "+with.name, func(t *testing.T) {
				t.Parallel()
				c.present(t)
				c.worksThrough(t, with.setup)
			})
		}
	}
}

// worksThrough runs the client against an origin behind an abide of its own, and
// looks at it from all sides.
func (c *client) worksThrough(t *testing.T, s setup) {
	o := startOrigin(t)
	a := startAbide(t, s, o)
	front := startRelay(t, dialer(a.proxy))
	env := ca.Env(s.address(front.address), a.trust.caFile, a.trust.bundleFile)
	out := run(t, env, c.command[0], c.arguments()...)
	if t.Failed() {
		return
	}
	c.said(t, out)
	c.reached(t, o, s)
	c.counted(t, a, o, s)
	want := c.connections
	if s.credentials && c.authenticating > 0 {
		want = c.authenticating
	}
	// One more is allowed: on a busy machine a client may find that the
	// connection it kept has a byte too late and open another.
	if got := int(front.accepted.Load()); got > want+1 {
		t.Errorf("the client made %d connections, not %d: they were not kept", got, want)
	}
}

// step is what a script asks a base for, and the text that it must get.
type step struct{ name, method, uri, body, answer string }

// steps are those of a client.
func (c *client) steps() []step {
	return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return c.gets && (s.name == "post" || s.name == "gzip") })
}

var steps = []step{
	{"get", "GET", "/get?q=a%20b&n=1", "", answerTo("GET", "/get?q=a%20b&n=1", "")},
	{"post", "POST", "/post", "name=J%C3%BCrgen&x=1", answerTo("POST", "/post", "name=J%C3%BCrgen&x=1")},
	{"big", "GET", "/big", "", bigAnswer},
	{"gzip", "GET", "/gzip", "", gzipAnswer},
	{"redirect", "GET", "/redirect", "", answerTo("GET", "/landed", "")},
	{"again", "GET", "/get?q=again", "", answerTo("GET", "/get?q=again", "")},
}

// said compares what the script printed: every step of both bases, each with
// the status, the decoded body and the version of HTTP.
func (c *client) said(t *testing.T, out string) {
	t.Helper()
	var want []string
	if c.calls != "" {
		want = append(want, c.calls)
	}
	for _, scheme := range []struct{ name, version string }{{"http", c.plain}, {"https", c.secure}} {
		version := scheme.version
		if version == "" {
			version = "HTTP/1.1"
		}
		for _, step := range c.steps() {
			want = append(want, strings.Join([]string{scheme.name, step.name, "200", sum(step.answer), version}, " "))
		}
	}
	same(t, "the client said", strings.Split(strings.TrimSpace(out), "\n"), want)
}

// reached compares what reached the origin: every request once, and nothing of
// the proxy's own business.
func (c *client) reached(t *testing.T, o *origin, s setup) {
	t.Helper()
	want := append([]string(nil), c.extra...)
	for _, base := range c.bases() {
		for _, step := range c.steps() {
			want = append(want, step.method+" "+base+step.uri)
		}
		want = append(want, "GET "+base+"/landed")
	}
	var got []string
	for _, r := range o.requests() {
		line := r.Method + " " + r.Scheme + "://" + r.Host + r.URI
		got = append(got, line)
		if r.URI == "/post" && r.Body != sum(steps[1].body) {
			t.Errorf("%s: another body than the client sent reached the origin", line)
		}
		if r.URI == "/gzip" && !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Errorf("%s: Accept-Encoding reached the origin as %q", line, r.Header["Accept-Encoding"])
		}
		if strings.HasPrefix(line, "POST https://api.twitter.com/2/") && r.Header.Get("Authorization") != "Bearer dummy" {
			t.Errorf("%s: the token did not reach the origin", line)
		}
		if s.intercept == "all" && r.Scheme == "https" && r.Proto != "HTTP/2.0" {
			t.Errorf("%s: abide spoke %s to an origin that has HTTP/2", line, r.Proto)
		}
		if c.seen(r, s) {
			// What a client sends inside a tunnel is its own: wget sends
			// Proxy-Connection there, and requests Proxy-Authorization after
			// a redirect.
			checkHeader(t, line, r.Header)
		}
	}
	same(t, "the origin saw", sorted(got), sorted(want))
}

// seen tells whether abide saw the request. The others were inside a tunnel.
func (c *client) seen(r seen, s setup) bool {
	return s.intercept == "all" || r.Scheme == "http" || c.absolute
}

// checkHeader looks for what concerns the proxy or one connection only.
func checkHeader(t *testing.T, line string, header http.Header) {
	t.Helper()
	for _, name := range []string{
		"Proxy-Authorization", "Proxy-Connection", "Proxy-Authenticate", "Connection", "Keep-Alive",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect",
	} {
		if values, ok := header[name]; ok {
			t.Errorf("%s: %s: %q reached the origin", line, name, values)
		}
	}
	for name := range header {
		if strings.HasPrefix(name, "Abide-") || strings.HasPrefix(name, "X-Forwarded-") {
			t.Errorf("%s: %s reached the origin", line, name)
		}
	}
}

// counted compares abide's own account with what the origin saw.
func (c *client) counted(t *testing.T, a *abide, o *origin, s setup) {
	t.Helper()
	site := `site="` + strings.TrimPrefix(c.bases()[0], "http://") + `"`
	requests := 0
	for _, r := range o.requests() {
		if c.seen(r, s) {
			requests++
		}
	}
	a.reaches(t, requests, "abide_requests_total", site)
	if in := a.metric(t, "abide_site_bytes_total", site, `direction="in"`); in < 2*len(bigAnswer) {
		t.Errorf("abide counted %d bytes from the site, and 2 MiB are from /big alone", in)
	}
}

// TestAClientWithoutItsSecretGetsNoFurtherThanAbide asks for everything with no
// secret, and with a wrong one.
func TestAClientWithoutItsSecretGetsNoFurtherThanAbide(t *testing.T) {
	t.Parallel()
	o := startOrigin(t)
	a := startAbide(t, setup{intercept: "all", credentials: true}, o)
	for _, user := range []string{"", clientName + ":wrong@"} {
		env := ca.Env("http://"+user+a.proxy, a.trust.caFile, a.trust.bundleFile)
		// Both statuses: that of the answer, and that of CONNECT's.
		for base, want := range map[string]string{"http://" + apiHost: "407 000", "https://" + apiHost: "000 407"} {
			ask := `curl -q -sS -o /dev/null -w '%{http_code} %{http_connect}' "$1" || true`
			if got := run(t, env, "sh", "-c", ask, "sh", base+"/get"); got != want {
				t.Errorf("curl got %q for %s through %q, not %q", got, base, user, want)
			}
		}
	}
	if got := o.requests(); len(got) > 0 {
		t.Errorf("%d requests reached the origin", len(got))
	}
}

// same requires the same lines in the same order.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	t.Errorf("%s\n  %s\nnot\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
}

func sorted(lines []string) []string {
	slices.Sort(lines)
	return lines
}
