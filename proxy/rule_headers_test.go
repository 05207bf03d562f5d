package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

const agentRule = `sites:
  - host: api.test
    headers: {set: {user-agent: "ours/1 (me@example.org)"}, default: {Accept-Language: en, Referer: "https://example.org/"}}`

func TestARuleWritesHeadersOfPlainAndOpenedRequests(t *testing.T) {
	b := newTestProxy(t, "intercept: auto", agentRule)
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%d %q %q %q", r.ProtoMajor, r.Header["User-Agent"], r.Header["Accept-Language"], r.Header["Referer"])
	})
	for _, one := range []struct {
		url  string
		h2   bool
		want string
	}{
		{"http://api.test/", false, `1 ["ours/1 (me@example.org)"] ["de"] ["https://example.org/"]`},
		{"https://api.test/", false, `2 ["ours/1 (me@example.org)"] ["de"] ["https://example.org/"]`},
		{"https://api.test/", true, `2 ["ours/1 (me@example.org)"] ["de"] ["https://example.org/"]`},
	} {
		for _, agent := range []string{"theirs", ""} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", one.url, nil)
			must(t, err)
			r.Header["User-Agent"] = []string{agent}
			r.Header.Set("Accept-Language", "de")
			resp, err := b.client(one.h2).Do(r)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			resp.Body.Close()
			if string(body) != one.want {
				t.Errorf("%s, h2 %v, %q: %s", one.url, one.h2, agent, body)
			}
		}
	}
}

// abide's own User-Agent is none, so that a default is that of jobs and of robots.txt, too.
func TestAbidesOwnUserAgentYieldsToADefault(t *testing.T) {
	var agents atomic.Pointer[string]
	bubble(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			agent := r.UserAgent()
			agents.Store(&agent)
		}
		io.WriteString(rw, r.UserAgent())
	}, "sites: [{host: site.test, robots: true, headers: {default: {User-Agent: ours}}}]\n", func(w *bubbleProxy) {
		for sent, want := range map[string]string{"abide": "ours", "theirs": "theirs"} {
			if got := w.get(w.client(), "http://site.test/", "User-Agent", sent); got.body != want {
				t.Errorf("%s: the site got %q", sent, got.body)
			}
		}
		if agent := agents.Load(); agent == nil || *agent != "ours" {
			t.Errorf("robots.txt was asked by %v", agent)
		}
	})
}

func TestAStreamMayBeSilentWhereItsRuleSaysSo(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		io.WriteString(rw, "data: 1\n\n")
		http.NewResponseController(rw).Flush()
		<-time.After(20 * time.Minute)
		io.WriteString(rw, "data: 2\n\n")
	}
	for rule, whole := range map[string]bool{"stall: off": true, "stall: 10m": false, "stall: 30m": true, "learn: true": false} {
		bubble(t, sites, "timeouts: {stall: 1m, answer: 1m, drain: 30s}\nsites: [{host: site.test, "+rule+"}]\n", func(w *bubbleProxy) {
			resp, err := w.client().Get("http://site.test/")
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if got := err == nil && len(body) == 18; got != whole {
				t.Errorf("%s: %q, %v after %v", rule, body, err, time.Since(w.began))
			}
			elapse(20 * time.Minute) // the site goes on although nobody reads
		})
	}
}

func TestATunnelMayBeSilentWhereItsRuleSaysSo(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	b := newTestProxy(t, "timeouts: {tunnel_idle: 200ms}", "intercept: none", "sites: [{host: 127.0.0.1, stall: off}]")
	silent, other := b.connect(echo.Addr().String()), b.connect(net.JoinHostPort("localhost", portOf(echo)))
	if _, err := other.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a tunnel without a rule: %v", err)
	}
	// The other tunnel has ended by its silence, and this one was silent for longer.
	fmt.Fprint(silent, "x")
	if _, err := io.ReadFull(silent, make([]byte, 1)); err != nil {
		t.Errorf("a tunnel with stall: off: %v", err)
	}
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
