package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/metrics"
)

// Whatever happens to requests, in the end only the bytes that have passed are spent.
func TestNoCreditIsLost(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		b := newTestProxy(t, limitsOf("{bytes: 100MB, per: day}, {bytes: 90MB, per: day, by: client}"), "intercept: all", "retry: {attempts: 2, base: 1ms, max: 2ms}", noLimits)
		var failures atomic.Int64
		b.handle(func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/fails":
				if failures.Add(1)%3 != 0 {
					panic(http.ErrAbortHandler)
				}
			case "/refused":
				if failures.Add(1)%2 != 0 {
					rw.Header().Set("Retry-After", "0")
					rw.WriteHeader(429)
				}
			case "/breaks":
				rw.Header().Set("Content-Length", "1000000")
				rw.Write(make([]byte, 50_000))
				panic(http.ErrAbortHandler)
			case "/long":
				flood(rw, r)
			case "/waits":
				<-r.Context().Done()
			case "/takes":
				io.Copy(io.Discard, r.Body)
			default:
				rw.Write(make([]byte, 10_000))
			}
		})
		c := b.client(true)
		base := scheme + "://" + host
		for _, path := range []string{"/", "/fails", "/refused", "/breaks", "/"} {
			resp, err := c.Get(base + path)
			if err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		resp, err := c.Post(base+"/takes", "text/plain", strings.NewReader(strings.Repeat("x", 300_000)))
		must(t, err)
		resp.Body.Close()
		for _, path := range []string{"/long", "/waits"} {
			ctx, leave := context.WithCancel(t.Context())
			r, _ := http.NewRequestWithContext(ctx, "GET", base+path, nil)
			time.AfterFunc(20*time.Millisecond, leave)
			if resp, err := c.Do(r); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		var site metrics.SiteCount
		eventually(t, 20*time.Second, scheme+": all that is gone has passed", func() bool {
			for _, site = range b.metrics.Sites() {
				if site.Name == host {
					break
				}
			}
			for _, l := range b.server.WrittenLimits() {
				if l.Amount-l.Left != int64(site.In+site.Out) {
					return false
				}
			}
			return true
		})
		if site.In+site.Out < 300_000 {
			t.Errorf("%s: only %d bytes passed", scheme, site.In+site.Out)
		}
	}
}
