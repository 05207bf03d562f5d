package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"
)

// configText is a configuration of the sites that are crawled. Servers are at one address.
func configText(s settings, address string) string {
	var b strings.Builder
	b.WriteString("log: {level: error}\negress:\n  resolve:\n")
	for _, one := range append(namedSites(), otherSites(s.sites)...) {
		fmt.Fprintf(&b, "    %q: %s\n", one+":80", address)
	}
	b.WriteString("pools:\n  api:\n    put: \"Authorization: Bearer {token}\"\n    tokens:\n")
	for i := range s.tokens {
		fmt.Fprintf(&b, "      - {label: news-%02d, secret: secret-%d}\n", i+1, i)
	}
	b.WriteString(`sites:
  - host: api.example.com
    pool: api
    insecure: true # servers of this machine, over plain http
    limits:
      - {requests: 20000, per: day}
  - host: shop.example.com
    limits:
      - {requests: 6, per: 1s}
      - {concurrency: 4}
  - host: news.example.org
    limits:
      - {bytes: 12MB, per: 1m}
  - host: wiki.example.net
    limits:
      - {as: adaptive, min: 1/s, max: 20/s}
`)
	return b.String()
}

func namedSites() []string {
	return []string{"api.example.com", "shop.example.com", "news.example.org", "wiki.example.net", "images.example.org"}
}

func otherSites(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("site-%04d.example.com", i+1)
	}
	return list
}

// startServers starts what is crawled: answers of some size, and an API that allows each token
// some requests a window and tells what is left.
func startServers() *httptest.Server {
	windows := &windows{by: map[string]*window{}}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, size := r.Header.Get("Authorization"), 2000+rand.IntN(8000)
		switch {
		case r.Host == "news.example.org":
			size *= 12
		case r.Host == "images.example.org":
			size *= 6
		case token == "Bearer secret-3":
			http.Error(w, "the token was revoked", http.StatusUnauthorized)
			return
		case token != "" && !windows.take(token, time.Now(), w.Header()):
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		_, _ = io.CopyN(w, zeros{}, int64(size)) // a client that has left needs no answer
	}))
}

// window is what a token has used since the window began.
type window struct {
	ends time.Time
	used int
}

// windows are those of all tokens. It is safe for concurrent use.
type windows struct {
	mu sync.Mutex
	by map[string]*window // :: token
}

// perWindow is how many requests a token has in a window.
const perWindow = 60

// take takes a request of a token, if there is one left, and tells what is left in headers.
// Windows are of two to five minutes.
func (s *windows) take(token string, now time.Time, h http.Header) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	item := s.by[token]
	if item == nil || !now.Before(item.ends) {
		item = &window{ends: now.Add(2*time.Minute + time.Duration(len(s.by)*37%180)*time.Second).Truncate(time.Second)}
		s.by[token] = item
	}
	item.used++
	h.Set("X-Rate-Limit-Limit", fmt.Sprint(perWindow))
	h.Set("X-Rate-Limit-Remaining", fmt.Sprint(max(perWindow-item.used, 0)))
	h.Set("X-Rate-Limit-Reset", fmt.Sprint(item.ends.Unix()))
	return item.used <= perWindow
}

// zeros are endless.
type zeros struct{}

func (zeros) Read(to []byte) (int, error) { clear(to); return len(to), nil }

// crawler asks a site as a client, by so many at once, and waits after each answer.
type crawler struct {
	site, client string
	priority     int
	many         int
	pause        time.Duration
}

func crawlers(s settings) []crawler {
	list := []crawler{
		{"api.example.com", "timeline", 1, 12, 900 * time.Millisecond},
		{"api.example.com", "archive", 5, 30, 200 * time.Millisecond},
		{"shop.example.com", "prices", 2, 16, 0},
		{"shop.example.com", "backfill", 6, 10, 0},
		{"news.example.org", "feeds", 3, 6, 300 * time.Millisecond},
		{"wiki.example.net", "graph", 4, 3, 250 * time.Millisecond},
		{"images.example.org", "media", 4, 2, 120 * time.Millisecond},
	}
	for _, one := range otherSites(s.sites) {
		list = append(list, crawler{one, "wide", 4, 1, 10 * time.Second})
	}
	return list
}

// crawl asks until ctx is done. The function that it returns waits for the end.
func crawl(ctx context.Context, proxy string, s settings) (wait func()) {
	via := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), MaxIdleConnsPerHost: 100}
	var all sync.WaitGroup
	for _, one := range crawlers(s) {
		for range one.many {
			all.Go(func() { one.run(ctx, via) })
		}
	}
	return func() {
		all.Wait()
		via.CloseIdleConnections()
	}
}

// run asks for one thing after the other. The load rises and falls over minutes.
func (c crawler) run(ctx context.Context, via http.RoundTripper) {
	began := time.Now()
	for ctx.Err() == nil {
		c.ask(ctx, via)
		slower := 1 + time.Duration(int(time.Since(began).Minutes())%3)
		select {
		case <-ctx.Done():
		case <-time.After(slower*c.pause + time.Duration(rand.IntN(200))*time.Millisecond):
		}
	}
}

func (c crawler) ask(ctx context.Context, via http.RoundTripper) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/items/%d", c.site, rand.IntN(1000)), nil)
	if err != nil {
		panic(err) // the URL is ours
	}
	r.Header.Set("Abide-Client", c.client)
	r.Header.Set("Abide-Priority", fmt.Sprint(c.priority))
	answer, err := via.RoundTrip(r)
	if err != nil {
		return // a crawler that is refused asks again
	}
	_, _ = io.Copy(io.Discard, answer.Body) // as above
	answer.Body.Close()
}
