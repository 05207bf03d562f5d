package proxy

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const exchanged = `
queue: {wait: 20m}
pools:
  p: {tokens: [{label: a, secret: "id-a:pass-1"}, {label: b, secret: "id-b:pass-2"}], oauth2: {token_url: "https://idp.test/token"}EXTRA}
sites:
  - {host: site.test, pool: p, insecure: true}
`

// exchanging is a site whose tokens come from an exchange. hang, fail and reject are the
// users for whom the exchange does so.
type exchanging struct {
	hang, fail, reject string
	exchanges, served  atomic.Int64
}

// secretOf is the secret of a request.
func secretOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

func (s *exchanging) serve(rw http.ResponseWriter, r *http.Request) {
	if r.Host != "idp.test" {
		s.served.Add(1)
		if !strings.HasPrefix(secretOf(r), "from-") {
			rw.WriteHeader(401)
		}
		return
	}
	s.exchanges.Add(1)
	who := ""
	if text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Basic "); ok {
		plain, _ := base64.StdEncoding.DecodeString(text)
		who, _, _ = strings.Cut(strings.TrimPrefix(string(plain), "id-"), ":")
	}
	switch {
	case who == "" || strings.Contains(s.reject, who):
		rw.WriteHeader(401)
	case strings.Contains(s.hang, who):
		elapse(time.Hour)
	case strings.Contains(s.fail, who):
		rw.WriteHeader(500)
	default:
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"access_token": "from-%s", "token_type": "bearer", "expires_in": 3600}`, who)
	}
}

// secure makes connections to idp.test use TLS, without verifying the certificate.
func (w *bubbleProxy) secure() {
	w.t.Helper()
	shown, err := w.server.interception.ca.TLSConfig("idp.test")
	must(w.t, err)
	config := &tls.Config{Certificates: shown.Certificates}
	up := w.server.Current().Upstream()
	up.TLS.InsecureSkipVerify = true
	up.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		if host != "idp.test" {
			return w.dial(ctx, host, port)
		}
		near, far := net.Pipe()
		select {
		case w.back.conns <- tls.Server(far, config):
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestAnExchangeThatFailsLeavesItToTheOtherToken(t *testing.T) {
	for _, site := range []*exchanging{{hang: "a"}, {fail: "a"}, {reject: "a"}} {
		bubble(t, site.serve, strings.Replace(exchanged, "EXTRA", "", 1), func(w *bubbleProxy) {
			w.secure()
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					if got := w.get(w.client(), fmt.Sprint("http://site.test/", i)); got.status != 200 || got.at > 2*time.Minute {
						t.Errorf("%+v: %d after %v", site, got.status, got.at)
					}
				})
			}
			all.Wait()
			elapse(time.Hour)
			w.idle("site.test")
		})
	}
}

func TestExchangesThatAllFailEndInAnAnswer(t *testing.T) {
	for _, extra := range []string{"", ", exhausted: refuse", ", anonymous: true"} {
		for _, site := range []*exchanging{{hang: "ab"}, {fail: "ab"}, {reject: "ab"}} {
			bubble(t, site.serve, strings.Replace(exchanged, "EXTRA", extra, 1), func(w *bubbleProxy) {
				w.secure()
				var all sync.WaitGroup
				for i := range 20 {
					all.Go(func() {
						got := w.get(w.client(), fmt.Sprint("http://site.test/", i))
						if got.status != 503 && got.status != 429 && !(got.status == 401 && extra == ", anonymous: true") || got.at > 21*time.Minute {
							t.Errorf("%+v: %d after %v", site, got.status, got.at)
						}
					})
				}
				all.Wait()
				if n := site.served.Load(); n > 0 && !strings.Contains(extra, "anonymous") {
					t.Errorf("%d went without a token", n)
				}
				elapse(2 * time.Hour)
				w.idle("site.test")
			})
		}
	}
}
