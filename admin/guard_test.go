package admin

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
)

func basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestEveryRouteThatIsNotOpenNeedsTheToken(t *testing.T) {
	b := newBed(t, withToken)
	for _, one := range routes {
		for _, headers := range [][]string{nil, {"Authorization: Bearer"}, {"Authorization: Bearer "}, {"Authorization: "}} {
			r := b.ask(one.method, one.path, "", headers...)
			if r.StatusCode != http.StatusUnauthorized || len(r.Header["Www-Authenticate"]) != 2 {
				t.Errorf("%s %s with %q: %d %q", one.method, one.path, headers, r.StatusCode, r.Header["Www-Authenticate"])
			}
		}
	}
	for _, path := range open {
		for _, host := range []string{b.address, "abide:9128", "10.1.2.3:9128"} {
			if r := b.get(path, "Host: "+host); r.StatusCode != http.StatusOK || strings.Contains(r.body, "PRIVATE") {
				t.Errorf("%s at %s: %d %q", path, host, r.StatusCode, r.body)
			}
		}
	}
	for _, right := range []string{"Authorization: Bearer " + token, "Authorization: bearer " + token, basic("", token), basic("anybody", token)} {
		if r := b.get("/api/v1/status", right); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", right, r.StatusCode)
		}
	}
}

func TestWhatIsNotExactlyTheTokenIsRefused(t *testing.T) {
	for _, wrong := range [][]string{
		{"Authorization: Bearer wrong"},
		{"Authorization: Bearer " + strings.ToUpper(token)},
		{"Authorization: Bearer " + token + "x"},
		{"Authorization: Bearer " + token[:len(token)-1]},
		{"Authorization: Bearer " + token + " " + token},
		{"Authorization: " + token},
		{"Authorization: Token " + token},
		{"Authorization: Basic " + token},
		{basic(token, "")},
		{basic(token, "wrong")},
		{"Authorization: Bearer " + token, "Authorization: Bearer " + token},
		{"Authorization: Bearer " + token, "Authorization: Bearer wrong"},
		{"X-Authorization: Bearer " + token},
		{"Proxy-Authorization: Bearer " + token},
		{"Cookie: token=" + token},
	} {
		b := newBed(t, withToken)
		if r := b.get("/api/v1/status", wrong...); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %d", wrong, r.StatusCode)
		}
	}
	b := newBed(t, withToken)
	for _, query := range []string{"?token=", "?access_token=", "?authorization=Bearer%20"} {
		if r := b.get("/api/v1/status" + query + token); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", query, r.StatusCode)
		}
	}
}

// answers counts what the handler answers to a header, and after how long the last one was.
func answers(t *testing.T, handler http.Handler, path, header string, many int) (counts map[int]int, took time.Duration) {
	t.Helper()
	began := time.Now()
	counts = map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			mu.Lock()
			counts[w.Code]++
			mu.Unlock()
		})
	}
	all.Wait()
	return counts, time.Since(began)
}

// guarded is a handler with a token, and what it logs.
func guarded(t *testing.T) (http.Handler, *metrics.Metrics, *strings.Builder) {
	t.Helper()
	p := policy.Defaults()
	p.Admin.Listen, p.Admin.Token = "0.0.0.0:9128", policy.NewSecret(token)
	var lines strings.Builder
	log := logrus.New()
	log.SetOutput(&lines)
	m := metrics.New(10)
	return New((&given{Options: Options{Policy: func() *policy.Policy { return p }, Metrics: m, Log: log}}).options()), m, &lines
}

func TestGuessingIsMadeToWait(t *testing.T) {
	for _, path := range []string{"/", "/readyz"} { // a probe is no way to guess either
		synctest.Test(t, func(t *testing.T) {
			handler, m, lines := guarded(t)
			// One connection after the other, then many at once.
			began := time.Now()
			for range 22 {
				answers(t, handler, path, "Bearer guess-1234567", 1)
			}
			if took := time.Since(began); took != time.Minute {
				t.Errorf("%s: 22 guesses took %v", path, took)
			}
			counts, took := answers(t, handler, path, "Bearer guess-1234567", 200)
			if counts[http.StatusUnauthorized] != 200 || took < 5*time.Second || took > 10*time.Second {
				t.Errorf("%s: %v after %v", path, counts, took)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := strings.Count(lines.String(), "wrong token from 192.0.2.1"); got < 2 || got > 4 || strings.Contains(lines.String(), "guess-") {
				t.Errorf("%s: %d lines:\n%s", path, got, lines)
			}
			if got := scraped(m); !strings.Contains(got, `abide_wrong_secrets_total{listener="admin"} 222`) {
				t.Errorf("%s: %s", path, got)
			}
		})
	}
}

func scraped(m *metrics.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestTheRightTokenIsAcceptedAtOnceWhileOthersGuess: from the same address, too.
func TestTheRightTokenIsAcceptedAtOnceWhileOthersGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, _, _ := guarded(t)
		var guessing sync.WaitGroup
		guessing.Go(func() { answers(t, handler, "/", "Bearer guess", 500) })
		synctest.Wait()
		for _, right := range []string{"Bearer " + token, strings.TrimPrefix(basic("any", token), "Authorization: ")} {
			if counts, took := answers(t, handler, "/", right, 50); counts[http.StatusOK] != 50 || took != 0 {
				t.Errorf("%v after %v", counts, took)
			}
		}
		guessing.Wait()
	})
}

func TestTheRightTokenIsNeverMadeToWait(t *testing.T) {
	b := newBed(t, withToken)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for range 10 {
				if r := b.get("/readyz", "Authorization: Bearer "+token); r.StatusCode != http.StatusOK {
					t.Errorf("status %d", r.StatusCode)
				}
			}
		})
	}
	all.Wait()
}

func TestAListenerBeyondLoopbackAnswersNothingWithoutAToken(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:9128", ":9128", "[::]:9128", "192.0.2.1:9128", "proxy.example:9128"} {
		b := newBed(t, func(p *policy.Policy, _ *given) { p.Admin.Listen = listen })
		for _, one := range routes {
			if r := b.ask(one.method, one.path, ""); r.StatusCode != http.StatusForbidden || !strings.Contains(r.body, "admin.token") {
				t.Errorf("%s, %s %s: %d %s", listen, one.method, one.path, r.StatusCode, r.body)
			}
		}
		for _, path := range open {
			if r := b.get(path, "Host: abide:9128"); r.StatusCode != http.StatusOK {
				t.Errorf("%s, %s: %d", listen, path, r.StatusCode)
			}
		}
	}
	for _, listen := range []string{"127.0.0.1:9128", "[::1]:9128", "localhost:9128", "127.1.2.3:1", "[::ffff:127.0.0.1]:1"} {
		if beyondLoopback(listen) {
			t.Errorf("%s counts as reachable by others", listen)
		}
	}
}

func TestANameThatAStrangerPointedHereIsRefused(t *testing.T) {
	b := newBed(t, func(p *policy.Policy, _ *given) { p.Admin.Listen = "localhost:9128" })
	for host, want := range map[string]int{
		"127.0.0.1:9128": 200, "127.0.0.1": 200, "[::1]:9128": 200, "localhost": 200, "LOCALHOST.:9128": 200,
		"abide.localhost": 200, "192.0.2.1:9128": 200,
		"evil.example": 403, "evil.example:9128": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403,
		"evillocalhost": 403, "127.1": 403, "0x7f.1": 403, "2130706433": 403,
	} {
		if r := b.get("/api/v1/status", "Host: "+host); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, r.StatusCode, want)
		}
	}
	bed := newBed(t, withToken)
	if r := bed.get("/api/v1/status", "Host: abide.example", "Authorization: Bearer "+token); r.StatusCode != http.StatusOK {
		t.Errorf("another name with the token: %d", r.StatusCode)
	}
	if r := bed.get("/api/v1/status", "Host: abide.example"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("another name without the token: %d", r.StatusCode)
	}
}

func TestWhatIsMeantForAProxyIsRefused(t *testing.T) {
	b := newBed(t, nil)
	for request, want := range map[string]int{
		"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n":                            400,
		"GET http://127.0.0.1:9128/healthz HTTP/1.1\r\nHost: 127.0.0.1:9128\r\n\r\n":         400,
		"GET https://127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                         400,
		"POST http://127.0.0.1/api/v1/reload HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":            400,
		"GET ftp://api.test/ HTTP/1.0\r\n\r\n":                                               400,
		"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n":                        405,
		"CONNECT 127.0.0.1:9128 HTTP/1.1\r\nHost: 127.0.0.1:9128\r\n\r\n":                    405,
		"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                      400,
		"TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token + "\r\n\r\n": 405,
	} {
		line, _, _ := strings.Cut(request, "\r\n")
		r := b.raw(request)
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", line, r.StatusCode, want)
		}
		if strings.Contains(r.body, token) {
			t.Errorf("%s: the answer repeats the request", line)
		}
	}
}

func TestNoAnswerInvitesOtherOrigins(t *testing.T) {
	b := newBed(t, nil)
	for _, origin := range []string{"null", "https://evil.example", "http://127.0.0.1:1", "http://" + b.address} {
		for _, one := range routes {
			for _, r := range []response{
				b.ask(one.method, one.path, "", "Origin: "+origin),
				b.ask(http.MethodOptions, one.path, "", "Origin: "+origin, "Access-Control-Request-Method: POST"),
			} {
				for name := range r.Header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s %s for %s: %s", one.method, one.path, origin, name)
					}
				}
			}
		}
	}
}

func TestPagesOfOtherOriginsChangeNothing(t *testing.T) {
	var reloads atomic.Int64
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Reload = func() ([]string, error) { reloads.Add(1); return nil, nil }
	})
	for _, headers := range [][]string{
		{"Origin: null"},
		{"Origin: https://evil.example"},
		{"Origin: http://127.0.0.1:1"},
		{"Sec-Fetch-Site: cross-site"},
		{"Sec-Fetch-Site: same-site", "Origin: http://" + b.address},
		{"Sec-Fetch-Site: cross-site", "Origin: http://" + b.address},
	} {
		if r := b.ask(http.MethodPost, "/api/v1/reload", "", headers...); r.StatusCode != http.StatusForbidden || reloads.Load() != 0 {
			t.Errorf("%q: %d, %d reloads", headers, r.StatusCode, reloads.Load())
		}
	}
	for _, headers := range [][]string{
		nil,
		{"Sec-Fetch-Site: same-origin"},
		{"Sec-Fetch-Site: none"},
		{"Origin: http://" + b.address},
	} {
		if r := b.ask(http.MethodPost, "/api/v1/reload", "", headers...); r.StatusCode != http.StatusOK {
			t.Errorf("%q: %d %s", headers, r.StatusCode, r.body)
		}
	}
	if reloads.Load() != 4 {
		t.Errorf("%d reloads", reloads.Load())
	}
}
