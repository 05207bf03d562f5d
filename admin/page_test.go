package admin

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/status"
)

var hostile = []string{
	`<img src=x onerror=alert(1)>`, `<script>alert(1)</script>`, `"><svg onload=alert(1)>`, `'onmouseover='alert(1)`,
	`javascript:alert(1)`, `</td></table><iframe src=//evil.example>`, "{{.CA}}", "\u202egnp.exe", "a\x00b\xff",
}

// tags are the elements of a page with their attributes.
func tags(t *testing.T, text string) map[string]int {
	t.Helper()
	all := map[string]int{}
	tokens := html.NewTokenizer(strings.NewReader(text))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		token := tokens.Token()
		all[token.Data]++
		for _, attribute := range token.Attr {
			all[attribute.Key+"="]++
			if strings.HasPrefix(attribute.Key, "on") || attribute.Key == "style" || !slices.Contains([]string{"value", "data-key", "aria-label"}, attribute.Key) && strings.HasPrefix(attribute.Val, "javascript:") {
				t.Errorf("<%s %s=%q>", token.Data, attribute.Key, attribute.Val)
			}
		}
	}
	return all
}

// nothingRuns checks that a page has its own script alone, and nothing that can run or is
// loaded from elsewhere.
func nothingRuns(t *testing.T, found map[string]int) {
	t.Helper()
	if found["script"] != 1 || found["src="] != 1 {
		t.Errorf("the page has %d scripts and %d of src=", found["script"], found["src="])
	}
	for _, never := range []string{"img", "iframe", "style", "object", "embed", "base", "image", "use", "animate", "foreignobject"} {
		if found[never] > 0 {
			t.Errorf("the page has %d of %s", found[never], never)
		}
	}
}

func TestWhatOthersNamedIsShownAndNeverRun(t *testing.T) {
	b := newBed(t, func(p *policy.Policy, o *given) {
		o.Version = hostile[0]
		p.Listen = hostile[2] + ":3128"
		o.Ready = func() []status.Check {
			return []status.Check{{Name: hostile[1], Detail: hostile[2]}}
		}
	})
	for _, one := range hostile {
		b.metrics.Site(one).Request("GET", 200, 1)
		b.metrics.Site("plain-"+one).Request(one, 200, 1)
	}
	for _, host := range []string{"127.0.0.1", "[::1]", `<b>.localhost`, `"onload=x.localhost`} {
		r := b.raw("GET / HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: <script>x</script>\r\nConnection: close\r\n\r\n")
		if r.StatusCode == http.StatusBadRequest {
			continue // net/http knows that it is no host
		}
		found := tags(t, r.body)
		nothingRuns(t, found)
		if found["form"] != 1+2*len(hostile) {
			t.Errorf("Host %s: the page has %d forms, a button for each of %d sites and the search", host, found["form"], 2*len(hostile))
		}
		if found["tr"] != 2+2*len(hostile) && found["tr"] != 4+2*len(hostile) {
			t.Errorf("the table has %d rows", found["tr"])
		}
		if !strings.Contains(r.body, "&lt;img src=x onerror=alert(1)&gt;") {
			t.Error("a name is not shown as it is")
		}
	}
}

func TestBrowsersAreToldToRunNothing(t *testing.T) {
	b := newBed(t, nil)
	bed := newBed(t, withToken)
	answers := []response{b.get("/healthz"), b.get("/", "Host: evil.example"), b.raw("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n"), bed.get("/")}
	for _, one := range routes {
		answers = append(answers, b.ask(one.method, one.path, ""))
	}
	for _, r := range answers {
		policy := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%d: the policy %q lacks %s", r.StatusCode, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%d: %v", r.StatusCode, r.Header)
		}
	}
}

func TestThePageTellsHowToPointAClientHere(t *testing.T) {
	b := newBed(t, func(p *policy.Policy, _ *given) { p.Listen, p.Open.Listen = "127.0.0.1:3128", "127.0.0.1:3129" })
	b.metrics.Site("api.test").Read(1_500_000)
	r := b.get("/")
	if kind := r.Header.Get("Content-Type"); r.StatusCode != 200 || kind != "text/html; charset=utf-8" {
		t.Fatalf("%d %s", r.StatusCode, kind)
	}
	for _, want := range []string{"https_proxy=http://127.0.0.1:3129</pre>", "At <code>http://127.0.0.1:3128</code> the setting", "v1.2.3", "up 1 h 00 min", `href="/ca.pem"`, "api.test", "1.5 MB", `http-equiv="refresh"`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %s:\n%s", want, r.body)
		}
	}
	if r := b.get("/style.css"); r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/css; charset=utf-8" || !strings.Contains(r.body, "prefers-color-scheme: dark") {
		t.Errorf("style: %d %v", r.StatusCode, r.Header)
	}
}

func TestThePageShowsTheAddressThatTheSystemChose(t *testing.T) {
	b := newBed(t, func(p *policy.Policy, o *given) {
		p.Listen, p.Open.Listen, o.Listen = "127.0.0.1:0", "", "127.0.0.1:43210"
	})
	if r := b.get("/"); !strings.Contains(r.body, "https_proxy=http://127.0.0.1:43210") {
		t.Errorf("the page:\n%s", r.body)
	}
}

func TestThePageTellsHowToTrustTheCertificate(t *testing.T) {
	for command, want := range map[string]string{
		"abide env --data '/it''s here'": `<code>eval "$(abide env --data &#39;/it&#39;&#39;s here&#39;)"</code>`,
		"":                               `<a href="/bundle.pem">`,
	} {
		b := newBed(t, func(_ *policy.Policy, o *given) { o.EnvCommand = command })
		if r := b.get("/"); !strings.Contains(r.body, want) || strings.Contains(r.body, "abide env") != (command != "") {
			t.Errorf("with the command %q:\n%s", command, r.body)
		}
	}
}

func TestThePageTellsWhichHostsTheCertificateIsGoodFor(t *testing.T) {
	for _, one := range []struct {
		names []string
		want  string
	}{
		{nil, "any host"},
		{[]string{"b.test", "a.test"}, "a.test, b.test</dd>"},
		{[]string{}, "No https is intercepted"},
	} {
		b := newBed(t, func(_ *policy.Policy, o *given) {
			authority, err := ca.Open("", ca.Options{Names: one.names})
			if err != nil {
				t.Fatal(err)
			}
			o.CA = authority
		})
		if r := b.get("/"); !strings.Contains(r.body, one.want) {
			t.Errorf("%q: the page lacks %s:\n%s", one.names, one.want, r.body)
		}
		if r := b.get("/api/v1/status"); strings.Contains(r.body, `"names":null`) {
			t.Errorf("%q: %s", one.names, r.body)
		}
	}
}

func TestAProxyOnEveryAddressIsReachedByTheNameThatWasUsed(t *testing.T) {
	for _, one := range []struct {
		listen, host string
		authenticate bool
		want         string
	}{
		{"127.0.0.1:3128", "abide.example:9128", false, "http://127.0.0.1:3128"},
		{"0.0.0.0:3128", "abide.example:9128", false, "http://abide.example:3128"},
		{":3128", "[2001:db8::1]:9128", false, "http://[2001:db8::1]:3128"},
		{"[::]:3128", "", false, "http://127.0.0.1:3128"},
		{"192.0.2.1:3128", "x", true, "http://NAME:SECRET@192.0.2.1:3128"},
	} {
		if got := proxyURL("http", one.listen, one.host, one.authenticate); got != one.want {
			t.Errorf("%+v: %s", one, got)
		}
	}
}
