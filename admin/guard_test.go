package admin

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

func basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestAD03_EveryRouteThatIsNotOpenNeedsTheToken(t *testing.T) {
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

func TestAD03_WhatIsNotExactlyTheTokenIsRefused(t *testing.T) {
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

func TestAD03_GuessingIsMadeToWait(t *testing.T) {
	b := newBed(t, withToken)
	var refused, limited atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				switch r := b.get("/", "Authorization: Bearer guess"); r.StatusCode {
				case http.StatusUnauthorized:
					refused.Add(1)
				case http.StatusTooManyRequests:
					limited.Add(1)
					if wait, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 6 {
						t.Errorf("Retry-After: %q", r.Header.Get("Retry-After"))
					}
				default:
					t.Errorf("status %d", r.StatusCode)
				}
			}
		})
	}
	all.Wait()
	if n := refused.Load(); n < freeGuesses || n > freeGuesses+4 {
		t.Errorf("%d guesses were looked at, %d made to wait", n, limited.Load())
	}
	if r := b.get("/", "Authorization: Bearer "+token); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the right token tells itself apart: %d", r.StatusCode)
	}
	if r := b.get("/healthz"); r.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %d", r.StatusCode)
	}
}

func TestAD03_TheRightTokenIsNeverMadeToWait(t *testing.T) {
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

func TestAGuesserWaitsForEachFurtherGuess(t *testing.T) {
	g := newGuesses().of("192.0.2.1")
	now := time.Now()
	wrong, right := func() bool { return false }, func() bool { return true }
	for i := range freeGuesses {
		if wait, _ := g.try(now, wrong); wait != 0 {
			t.Fatalf("guess %d waits for %v", i, wait)
		}
	}
	if wait, ok := g.try(now, right); ok || wait != guessInterval {
		t.Errorf("the next waits for %v, %v", wait, ok)
	}
	if wait, ok := g.try(now.Add(guessInterval), right); !ok || wait != 0 {
		t.Errorf("later: waits for %v, %v", wait, ok)
	}
}

func TestGuessesAreCountedByNetworkInIPv6(t *testing.T) {
	g := newGuesses()
	if g.of("2001:db8::1") != g.of("2001:db8::ffff:1") || g.of("2001:db8::1") == g.of("2001:db8:0:1::1") {
		t.Error("addresses of one network count apart, or those of two together")
	}
	if g.of("192.0.2.1") == g.of("192.0.2.2") {
		t.Error("two addresses count together")
	}
}

func TestAD04_AListenerBeyondLoopbackAnswersNothingWithoutAToken(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:9128", ":9128", "[::]:9128", "192.0.2.1:9128", "proxy.example:9128"} {
		b := newBed(t, func(p *policy.Policy, _ *Options) { p.Admin.Listen = listen })
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
	b := newBed(t, func(p *policy.Policy, _ *Options) { p.Admin.Listen = "localhost:9128" })
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
	own := newBed(t, withToken)
	if r := own.get("/api/v1/status", "Host: abide.example", "Authorization: Bearer "+token); r.StatusCode != http.StatusOK {
		t.Errorf("another name with the token: %d", r.StatusCode)
	}
	if r := own.get("/api/v1/status", "Host: abide.example"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("another name without the token: %d", r.StatusCode)
	}
}

func TestAD10_WhatIsMeantForAProxyIsRefused(t *testing.T) {
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

func TestAD11_NoAnswerInvitesOtherOrigins(t *testing.T) {
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
	b := newBed(t, func(_ *policy.Policy, o *Options) {
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
