package clients

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/ca"
)

// row is a line of the table in docs/clients.md: programs that behave alike under
// abide run.
type row struct {
	name string // first column
	// alone tells whether abide run is all that they need: second column.
	alone bool
	runs  []client // clients that work, with what the third column says
	tools []tool   // tools that do
	// browsers are clients that load browserPage, by the flags of abide run that they need.
	browsers map[string][]client
	fails    []client // clients without that: their https does not get through
}

// tool is a program that asks for one thing.
type tool struct {
	name    string
	command []string
	answers map[string]string // path at the origin → body
	prints  string
}

// nodeVersions are those of the binaries in package.json.
var nodeVersions = []string{"18", "20", "22", "24"}

// onNode is a client on versions of Node, with arguments of its own.
func onNode(c *client, versions []string, options ...string) []client {
	var all []client
	for _, version := range versions {
		item := *c
		binary := "node" + version
		if runtime.GOARCH == "arm64" {
			binary += "-arm64"
		}
		item.name = strings.Join(append([]string{c.name, "on Node", version}, options...), " ")
		item.command = append([]string{filepath.Join("node_modules", binary, "bin", "node")}, c.command[1:]...)
		item.options = options
		all = append(all, item)
	}
	return all
}

// with is a client with other arguments.
func with(c client, options ...string) client {
	c.options = options
	return c
}

func tableRows(t *testing.T) []row {
	named := func(names ...string) []client {
		var all []client
		for _, name := range names {
			all = append(all, *clientNamed(t, name))
		}
		return all
	}
	byName := func(name string) *client { return clientNamed(t, name) }
	fetch := &client{name: "fetch", command: script(node, "fetch_client.mjs"), plain: "-", secure: "-"}
	old, modern := nodeVersions[:2], nodeVersions[2:]
	streams := client{
		name: "PHP's streams", command: script("php", "php_streams_client.php"), gets: true,
	}
	aria2 := client{name: "aria2", command: script("sh", "aria2.sh"), needs: "aria2c", gets: true, plain: "-", secure: "-"}

	const at, answer = "https://api.test/get?q=1", "GET /get?q=1\n\n"
	return []row{
		{name: "curl", alone: true, runs: named("curl", "curl with HTTP2")},
		{name: "wget", alone: true, runs: named("wget")},
		{name: "aria2", runs: []client{with(aria2, "ca-certificate")}, fails: []client{aria2}},
		{name: "git", alone: true, tools: []tool{{
			name: "git", command: []string{"git", "ls-remote", "https://api.test/repo.git"},
			answers: map[string]string{
				"/repo.git/info/refs": strings.Repeat("a", 40) + "\trefs/heads/main\n",
				"/repo.git/HEAD":      "ref: refs/heads/main\n",
			},
			prints: strings.Repeat("a", 40) + "\tHEAD\n" + strings.Repeat("a", 40) + "\trefs/heads/main\n",
		}}},
		{name: "Python: requests, httpx, Scrapy, Tweepy", alone: true, runs: named("requests", "httpx", "scrapy", "tweepy")},
		{name: "Python: urllib, pip", alone: true, tools: []tool{
			{
				name: "urllib", prints: answer,
				command: []string{python, "-c", "import sys, urllib.request\nprint(urllib.request.urlopen(sys.argv[1]).read().decode(), end='')", at},
			},
			{
				name: "pip", prints: "polite (1.5)\nAvailable versions: 1.5\n",
				command: []string{python, "-m", "pip", "--disable-pip-version-check", "index", "versions", "polite", "--index-url", "https://api.test/simple/"},
				answers: map[string]string{"/simple/polite/": `<a href="polite-1.5-py3-none-any.whl">polite-1.5-py3-none-any.whl</a>`},
			},
		}},
		{name: "Python: aiohttp", runs: named("aiohttp"), fails: []client{with(*byName("aiohttp"), "alone")}},
		{
			name: "Node 22.21 and later, 24.5 and later: `fetch`, `http`, `https`, undici, got", alone: true,
			runs: slices.Concat(
				onNode(fetch, modern), onNode(byName("node"), modern, "alone"),
				onNode(byName("undici"), modern, "alone"), onNode(byName("got"), modern, "alone"),
			),
		},
		{
			name:  "Node 18 and 20: `fetch`, undici",
			runs:  slices.Concat(onNode(byName("undici"), old), onNode(byName("undici"), old, "ProxyAgent")),
			fails: slices.Concat(onNode(fetch, old), onNode(byName("undici"), old, "alone")),
		},
		{
			name:  "Node 18 and 20: `http`, `https`, got",
			runs:  slices.Concat(onNode(byName("node"), old), onNode(byName("got"), old)),
			fails: slices.Concat(onNode(byName("node"), old, "alone"), onNode(byName("got"), old, "alone")),
		},
		{name: "Node 18 to 24: axios, needle", alone: true, runs: slices.Concat(onNode(byName("axios"), nodeVersions), onNode(byName("needle"), nodeVersions))},
		{name: "Java: `HttpClient`", alone: true, runs: named("java")},
		{name: "Go: `net/http`", alone: true, runs: named("go")},
		{name: "PHP: curl extension", alone: true, runs: []client{{name: "PHP's curl", command: script("php", "php_curl_client.php"), secure: "HTTP/2"}}},
		{name: "PHP: streams (`file_get_contents`, `fopen`)", runs: []client{streams}, fails: []client{with(streams, "alone")}},
		{
			name:     "Chromium on Linux: Playwright, Puppeteer, Selenium, Crawlee",
			browsers: map[string][]client{"--browsers": browsers(), "--quiet": browsers("ignore")},
			fails:    browsers()[:1],
		},
		{name: "Perl: LWP", alone: true, tools: []tool{{
			name: "LWP", prints: answer,
			command: []string{"perl", "-MLWP::UserAgent", "-e", "print LWP::UserAgent->new(env_proxy => 1)->get($ARGV[0])->content", at},
		}}},
		{name: "Ruby: Net::HTTP", alone: true, tools: []tool{{
			name: "Net::HTTP", prints: answer,
			command: []string{"ruby", "-rnet/http", "-e", "print Net::HTTP.get(URI(ARGV[0]))", at},
		}}},
	}
}

// TestTheTableOfClientsIsTrue runs what the table in docs/clients.md tells of, with
// no configuration but where the origin is.
func TestTheTableOfClientsIsTrue(t *testing.T) {
	t.Parallel()
	for _, r := range tableRows(t) {
		for _, c := range r.runs {
			t.Run(r.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.present(t)
				o := startOrigin(t)
				c.worksUnderRun(t, o, o.environ())
			})
		}
		for flag, all := range r.browsers {
			for _, c := range all {
				t.Run(r.name+"/"+c.name+" "+flag, func(t *testing.T) {
					t.Parallel()
					c.present(t)
					c.browsesUnderRun(t, flag)
				})
			}
		}
		for _, c := range r.fails {
			t.Run(r.name+"/"+c.name+" by itself", func(t *testing.T) {
				t.Parallel()
				c.present(t)
				c.failsAlone(t)
			})
		}
		for _, one := range r.tools {
			t.Run(r.name+"/"+one.name, func(t *testing.T) {
				t.Parallel()
				o := one.startOrigin(t)
				one.worksUnderRun(t, o, o.environ())
			})
		}
	}
}

// environ has abide find the origin, and trust it. A client does not.
func (o *origin) environ() []string {
	var resolve []string
	for _, host := range []string{apiHost, twitterHost, exampleHost} {
		resolve = append(resolve, host+":80="+o.plain, host+":443="+o.secure)
	}
	return []string{"ABIDE_EGRESS_ROOTS=" + originTrust.caFile, "ABIDE_EGRESS_RESOLVE=" + strings.Join(resolve, ",")}
}

// worksUnderRun runs a client under abide run with these flags.
func (c *client) worksUnderRun(t *testing.T, o *origin, env []string, flags ...string) {
	t.Helper()
	out := run(t, env, abideBinary, slices.Concat([]string{"run"}, flags, []string{"--", c.command[0]}, c.arguments())...)
	if t.Failed() {
		return
	}
	c.said(t, out)
	c.reached(t, o, setup{intercept: "all"})
}

// failsAlone runs a client that has to fail over https.
func (c *client) failsAlone(t *testing.T) {
	t.Helper()
	o := startOrigin(t)
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	secure := c.bases()[1]
	args := append(c.command[1:len(c.command):len(c.command)], secure, secure)
	cmd := exec.CommandContext(ctx, abideBinary, slices.Concat([]string{"run", "--", c.command[0]}, args, c.options)...)
	together(cmd)
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), quickRace}, o.environ()...)
	out, err := cmd.CombinedOutput()
	if got := o.requests(); err == nil || ctx.Err() != nil || len(got) > 0 {
		t.Errorf("it works now, so the table is wrong: %v, %d requests\n%s", err, len(got), out)
	}
}

// startOrigin is an origin that answers the tool.
func (item tool) startOrigin(t *testing.T) *origin {
	t.Helper()
	return startOriginThat(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		body, ok := item.answers[r.URL.Path]
		if !ok && item.answers != nil {
			http.NotFound(w, r)
			return
		}
		if !ok {
			body = answerTo(r.Method, r.RequestURI, "")
		}
		_, _ = w.Write([]byte(body)) // the client may have left
	})
}

// worksUnderRun runs a tool under abide run with these flags.
func (item tool) worksUnderRun(t *testing.T, o *origin, env []string, flags ...string) {
	t.Helper()
	if _, err := exec.LookPath(item.command[0]); err != nil {
		t.Fatalf("%s is not installed here; `make test` installs it: %v", item.name, err)
	}
	out := run(t, env, abideBinary, slices.Concat([]string{"run"}, flags, []string{"--"}, item.command)...)
	if out != item.prints {
		t.Errorf("%s said %q, not %q", item.name, out, item.prints)
	}
	got := o.requests()
	for _, r := range got {
		if r.Scheme != "https" || r.Proto != "HTTP/2.0" {
			t.Errorf("%s %s://%s%s reached the origin by %s: abide did not open it", r.Method, r.Scheme, r.Host, r.URI, r.Proto)
		}
	}
	if len(got) == 0 {
		t.Error("nothing reached the origin")
	}
}

func TestTheTableOfClientsHasARowForEachTest(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n| client | works alone |")
	if !found {
		t.Fatal("the page has no table of clients")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var written []string
	for _, cells := range regexp.MustCompile(`(?m)^\| ([^|]*[^| ]) \| (yes|no) \|(.*)\|$`).FindAllStringSubmatch(table, -1) {
		if more := strings.TrimSpace(cells[3]); cells[2] == "no" && more == "" {
			t.Errorf("%s: the row does not say what the client needs", cells[1])
		}
		written = append(written, cells[1]+" "+cells[2])
	}
	if lines := strings.Count(table, "\n") - 1; len(written) != lines {
		t.Errorf("%d rows of %d can be read", len(written), lines)
	}
	var tested []string
	for _, r := range tableRows(t) {
		works := "no"
		if r.alone {
			works = "yes"
		}
		if len(r.runs)+len(r.tools)+len(r.browsers) == 0 || r.alone == (len(r.fails) > 0) {
			t.Errorf("%s: the row does not test what it says", r.name)
		}
		tested = append(tested, r.name+" "+works)
	}
	same(t, "the table has", written, tested)
}

func TestThePageOfClientsNamesEveryVariable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range ca.Env("http://127.0.0.1:3128", originTrust.caFile, originTrust.bundleFile) {
		name, _, _ := strings.Cut(one, "=")
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page does not name %s", name)
		}
	}
}
