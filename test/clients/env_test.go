package clients

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// limitedOrigin answers the steps of the clients within a limit of five requests in
// five seconds, which it announces and no configuration names.
type limitedOrigin struct {
	*origin
	mu      sync.Mutex
	opened  time.Time // when the window began
	used    int
	refused int
}

func startLimitedOrigin(t *testing.T) *limitedOrigin {
	t.Helper()
	const allowed, window = 5, 5 * time.Second
	l := &limitedOrigin{}
	l.origin = startOriginThat(t, func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		now := time.Now()
		if now.Sub(l.opened) >= window {
			l.opened, l.used = now, 0
		}
		l.used++
		left := allowed - l.used
		if left < 0 {
			l.refused++
		}
		reset := strconv.Itoa(int(l.opened.Add(window).Sub(now)/time.Second) + 1)
		l.mu.Unlock()
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(allowed))
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(max(left, 0)))
		w.Header().Set("X-RateLimit-Reset", reset)
		text := "fine\n"
		switch {
		case left < 0:
			w.Header().Set("Retry-After", reset)
			w.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/redirect":
			w.Header().Set("Location", "/landed")
			w.WriteHeader(http.StatusFound)
		case r.URL.Path == "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			text = zippedAnswer
		}
		_, _ = io.WriteString(w, text) // the client may have left
	})
	return l
}

// TestServeAndAbideEnvKeepEveryClientWithinItsLimits has clients know nothing but what
// `abide env` prints, or one port and the user name open, beside a proxy without rules.
func TestServeAndAbideEnvKeepEveryClientWithinItsLimits(t *testing.T) {
	t.Parallel()
	const env = `eval "$("$ABIDE" env --config "$CONFIG" --admin "$ADMIN")" && `
	const name = `export HTTP_PROXY=http://open:open@$PROXY HTTPS_PROXY=http://open:open@$PROXY && export http_proxy=$HTTP_PROXY https_proxy=$HTTPS_PROXY && `
	for _, one := range []string{"curl", "curl with HTTP2", "requests", "httpx", "scrapy", "undici", "axios", "got", "go", "java"} {
		for way, lines := range map[string]string{"abide env": env, "the user name open": env + name} {
			if way != "abide env" && one == "java" {
				continue // sends no password that nobody asks for
			}
			t.Run(one+" with "+way, func(t *testing.T) {
				t.Parallel()
				c := clientNamed(t, one)
				c.present(t)
				o := startLimitedOrigin(t)
				a := startAbide(t, setup{intercept: "auto"}, o.origin)
				args := append([]string{"-c", lines + `exec "$@"`, "crawler", c.command[0]}, c.arguments()...)
				out := run(t, []string{"ABIDE=" + abideBinary, "CONFIG=" + a.config, "ADMIN=" + a.admin, "PROXY=" + a.proxy}, "sh", args...)
				if t.Failed() {
					return
				}
				lines := strings.Split(strings.TrimSpace(out), "\n")
				if len(lines) != 2*len(steps) {
					t.Errorf("it said %d lines:\n%s", len(lines), out)
				}
				for _, line := range lines {
					if words := strings.Fields(line); len(words) < 3 || words[2] != "200" {
						t.Errorf("it got %s", line)
					}
				}
				for _, r := range o.requests() {
					if r.Scheme == "https" && r.Proto != "HTTP/2.0" {
						t.Errorf("%s %s reached the origin by %s: abide did not open it", r.Method, r.URI, r.Proto)
					}
				}
				if o.refused > 0 {
					t.Errorf("the site refused %d requests", o.refused)
				}
				if n := a.metric(t, "abide_https_unread_total"); n > 0 {
					t.Errorf("%d connections passed unread", n)
				}
			})
		}
	}
}
