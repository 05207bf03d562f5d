package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// endless is a body of n bytes that are never all in memory. The transport may
// still read it when the answer is there.
type endless struct {
	n    int64
	sent atomic.Int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := min(int64(len(p)), e.n-e.sent.Load())
	if n <= 0 {
		return 0, io.EOF
	}
	for i := range p[:n] {
		p[i] = '['
	}
	e.sent.Add(n)
	return int(n), nil
}

func TestBodiesAreBoundedAndStrict(t *testing.T) {
	b := newBed(t, func(_ *policy.Policy, o *given) { o.Reload = func() ([]string, error) { return nil, nil } })
	const kind = "Content-Type: application/json"
	for _, one := range []struct {
		what, body string
		headers    []string
		want       int
	}{
		{"nothing", "", nil, 200},
		{"an empty object", "{}", []string{kind}, 200},
		{"a charset", " {} \n", []string{kind + "; charset=utf-8"}, 200},
		{"no type", "{}", nil, 200},
		{"no type and no JSON", "a=b", nil, 415},
		{"what curl --data says", " {}", []string{"Content-Type: application/x-www-form-urlencoded"}, 200},
		{"a form", "a=b", []string{"Content-Type: application/x-www-form-urlencoded"}, 415},
		{"text that is JSON", "{}", []string{"Content-Type: text/plain"}, 415},
		{"a broken type", "{}", []string{"Content-Type: ;;"}, 415},
		{"an unknown field", `{"when":"now"}`, []string{kind}, 400},
		{"another value", `[]`, []string{kind}, 400},
		{"half an object", `{`, []string{kind}, 400},
		{"two objects", `{}{}`, []string{kind}, 400},
		{"noise after it", `{} x`, []string{kind}, 400},
		{"no JSON", "\x00\xff", []string{kind}, 400},
		{"deep nesting", `{"a":` + strings.Repeat("[", 200_000), []string{kind}, 400},
		{"a long field", `{"` + strings.Repeat("\u00e9", 1000) + `":1}`, []string{kind}, 400},
		{"too much", `{"a":"` + strings.Repeat("x", maxBody) + `"}`, []string{kind}, 413},
		{"too much of another type", strings.Repeat("x", maxBody+1), nil, 413},
	} {
		r := b.ask(http.MethodPost, "/api/v1/reload", one.body, one.headers...)
		if r.StatusCode != one.want || len(r.body) > 1000 || !json.Valid([]byte(r.body)) {
			t.Errorf("%s: %d, want %d: %.200s", one.what, r.StatusCode, one.want, r.body)
		}
	}
}

func TestAHundredMegabytesAreCutOff(t *testing.T) {
	b := newBed(t, nil)
	for _, length := range []int64{100 << 20, -1} { // announced, and in chunks
		body := &endless{n: 100 << 20}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.address+"/api/v1/reload", body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		answer, err := b.client.Do(r)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d", answer.StatusCode)
			}
		}
		if sent := body.sent.Load(); sent > 40<<20 {
			t.Errorf("%d bytes were taken", sent)
		}
	}
}

func TestReloadTellsHowItWent(t *testing.T) {
	var fails error
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Reload = func() ([]string, error) { return []string{"rules 3 → 0"}, fails }
	})
	if r := b.ask(http.MethodPost, "/api/v1/reload", ""); r.StatusCode != 200 || !strings.Contains(r.body, `{"reloaded":true,"changes":["rules 3 → 0"]}`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	fails = fmt.Errorf("not reloaded: %w", policy.Faults{{Source: "abide.yaml", Line: 3, Key: "lisen", Text: "is unknown,\ndid you mean listen?"}})
	if r := b.ask(http.MethodPost, "/api/v1/reload", ""); r.StatusCode != 422 || !strings.Contains(r.body, "abide.yaml:3") ||
		!strings.Contains(r.body, `"faults":[{"file":"abide.yaml","line":3,"key":"lisen","text":"is unknown, did you mean listen?"}]`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.get("/api/v1/reload"); r.StatusCode != 405 {
		t.Errorf("GET: %d", r.StatusCode)
	}
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	checks := []status.Check{{Name: "listener", OK: true}}
	b := newBed(t, func(_ *policy.Policy, o *given) { o.Ready = func() []status.Check { return checks } })
	if r := b.get("/readyz"); r.StatusCode != 200 || r.body != "listener: ok\n" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	checks = append(checks, status.Check{Name: "store", Detail: "away\nlistener: ok"})
	if r := b.get("/readyz"); r.StatusCode != 503 || r.body != "listener: ok\nstore: not ready (away listener: ok)\n" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	checks = []status.Check{{Name: "listener", OK: true}, {Name: "state", OK: true, Degraded: true, Detail: "since 12:00:00 UTC: disk full"}}
	if r := b.get("/readyz"); r.StatusCode != 200 || r.body != "listener: ok\nstate: degraded (since 12:00:00 UTC: disk full)\n" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	if r := b.get("/"); !strings.Contains(r.body, `<th scope="row" class="warm">state</th><td class="text">since 12:00:00 UTC: disk full</td>`) || strings.Contains(r.body, "not ready") {
		t.Errorf("the page:\n%s", r.body)
	}
	if r := newBed(t, nil).get("/readyz"); r.StatusCode != 200 {
		t.Errorf("with nothing to check: %d", r.StatusCode)
	}
}

func TestReadinessTellsProbesNoDetails(t *testing.T) {
	checks := func() []status.Check {
		return []status.Check{{Name: "proxy", OK: true, Detail: "listening on 10.1.2.3:3128"}, {Name: "store", Detail: "redis.internal:6379 refuses"}}
	}
	b := newBed(t, func(p *policy.Policy, o *given) {
		p.Admin.Listen = "0.0.0.0:9128"
		p.Admin.Token = policy.NewSecret(token)
		o.Ready = checks
	})
	const bare, whole = "proxy: ok\nstore: not ready\n", "proxy: ok (listening on 10.1.2.3:3128)\nstore: not ready (redis.internal:6379 refuses)\n"
	if r := b.get("/readyz", "Host: abide.svc:9128"); r.StatusCode != 503 || r.body != bare {
		t.Errorf("without the token: %d %q", r.StatusCode, r.body)
	}
	if r := b.get("/readyz", "Authorization: Bearer "+token); r.StatusCode != 503 || r.body != whole {
		t.Errorf("with the token: %d %q", r.StatusCode, r.body)
	}
	local := newBed(t, func(_ *policy.Policy, o *given) { o.Ready = checks })
	if r := local.get("/readyz"); r.body != whole {
		t.Errorf("on loopback without a token: %q", r.body)
	}
	if r := local.get("/readyz", "Host: evil.example"); r.StatusCode != 503 || r.body != bare {
		t.Errorf("for a page that a stranger pointed here: %q", r.body)
	}
}

func TestStatusCountsSitesAndListsTheBusiest(t *testing.T) {
	b := newBed(t, nil)
	for range 3 {
		b.metrics.Tunnels.Add(1)
	}
	for i := range 150 {
		site := b.metrics.Site("site-" + strings.Repeat("x", i) + ".test")
		site.Read(1000 * i)
		site.Wrote(i)
		site.Request("GET", 200, time.Millisecond)
	}
	r := b.get("/api/v1/status")
	var got status.Process
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v: %s", err, r.body)
	}
	if len(got.Sites) != status.MaxListed || got.SiteCount < 150 || got.Total.Requests != 150 || got.Total.Out != 150*149/2 {
		t.Errorf("%d sites listed of %d, total %+v", len(got.Sites), got.SiteCount, got.Total)
	}
	if first := got.Sites[0]; first.In != 149_000 || first.Out != 149 || first.Requests != 1 {
		t.Errorf("the busiest: %+v", first)
	}
	if got.Version != "v1.2.3" || got.Uptime < 3599 || !got.Ready || got.CA == nil || !got.CA.AnyName || got.Connections.Tunnels != 3 {
		t.Errorf("%+v", got)
	}
}

func TestTheCertificateIsServedAndItsKeyIsNot(t *testing.T) {
	b := newBed(t, nil)
	r := b.get("/ca.pem")
	if r.StatusCode != 200 || !strings.HasPrefix(r.body, "-----BEGIN CERTIFICATE-----") || strings.Contains(r.body, "PRIVATE") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.get("/ca-key.pem"); r.StatusCode != 404 {
		t.Errorf("the key's name: %d", r.StatusCode)
	}
	none := newBed(t, func(_ *policy.Policy, o *given) { o.CA = nil })
	for path, want := range map[string]int{"/ca.pem": 404, "/bundle.pem": 404, "/bundle.jks": 404, "/": 200, "/api/v1/status": 200} {
		if r := none.get(path); r.StatusCode != want {
			t.Errorf("without a CA, %s: %d", path, r.StatusCode)
		}
	}
}

func TestMetricsAreServed(t *testing.T) {
	b := newBed(t, nil)
	if r := b.get("/metrics"); r.StatusCode != 200 || !strings.Contains(r.body, "abide_client_connections 0") {
		t.Errorf("%d %.200s", r.StatusCode, r.body)
	}
	if r := b.ask(http.MethodHead, "/metrics", ""); r.StatusCode != 200 || r.body != "" {
		t.Errorf("HEAD: %d %.200s", r.StatusCode, r.body)
	}
}

func TestAFaultOfOursStaysWithItsRequest(t *testing.T) {
	p := policy.Defaults()
	broken := true
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Metrics = metrics.New(10)
		o.Policy = func() *policy.Policy { return p }
		o.Ready = func() []status.Check {
			if broken {
				panic("secret " + token)
			}
			return nil
		}
	})
	if r := b.get("/readyz"); r.StatusCode != 500 || strings.Contains(r.body, token) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	broken = false
	if r := b.get("/readyz"); r.StatusCode != 200 {
		t.Errorf("afterwards: %d", r.StatusCode)
	}
}
