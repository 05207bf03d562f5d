package proxy

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// Bounds of what is done about robots.txt (RFC 9309).
const (
	robotsSites     = 4096             // origins that are remembered
	robotsPatience  = 10 * time.Second // of a request for the first answer
	robotsLife      = 24 * time.Hour   // of an answer
	robotsRetry     = 10 * time.Minute // where there was none
	robotsBody      = time.Minute      // for all of it, once it has begun
	robotsRedirects = 5
)

const robotsPath = "/robots.txt"

// crawler is abide itself where it asks a site on its own account.
var crawler = &client{name: "abide", priority: queue.DefaultPriority}

// robots are the Crawl-delays that origins ask for. The zero value is ready.
type robots struct {
	errands
	mu    sync.Mutex
	known *simplelru.LRU[policy.Target, *manners] // nil before the first
}

// manners are what one origin asks for.
type manners struct {
	ready chan struct{} // closed when robots.txt was asked for the first time

	// Guarded by robots.mu.
	asking bool
	until  time.Time // when to ask again
	asks   *crawlDelays
}

// of is what is known of an origin. Fresh says that the caller has to ask it.
func (b *robots) of(t policy.Target, now time.Time) (m *manners, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known, _ = simplelru.NewLRU[policy.Target, *manners](robotsSites, nil) // fails for sizes below 1 only
	}
	m, ok := b.known.Get(t)
	if !ok {
		m = &manners{ready: make(chan struct{})}
		t.Host = strings.Clone(t.Host) // not a piece of a request's buffer
		b.known.Add(t, m)
	}
	fresh = !m.asking && !now.Before(m.until)
	m.asking = m.asking || fresh
	return m, fresh
}

// asks is what an origin asks for, nil if that is nothing or not known.
func (b *robots) asks(m *manners) *crawlDelays {
	b.mu.Lock()
	defer b.mu.Unlock()
	return m.asks
}

// learned keeps an answer. Without one, what was known before holds on.
func (b *robots) learned(m *manners, asks *crawlDelays, answered bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := m.until.IsZero()
	m.asking, m.until = false, now.Add(robotsRetry)
	if answered {
		m.asks, m.until = asks, now.Add(robotsLife)
	}
	if first {
		close(m.ready)
	}
}

// prior is the limit that robots.txt sets a request, nil if it sets none. The first
// requests to an origin wait for it, but not for long.
func (s *Server) prior(x *exchange, r *http.Request) *queue.Limit {
	if p := x.state.plans[x.rule]; p == nil || !p.robots || x.client == crawler {
		return nil
	}
	m, fresh := s.robots.of(x.target, time.Now())
	if fresh {
		s.askRobots(x.target, m)
	}
	if r.URL.EscapedPath() != robotsPath && !x.state.policy.Observes() {
		x.await(r.Context(), m)
	}
	asks := s.robots.asks(m)
	if asks == nil {
		return nil
	}
	return asks.limit(r.UserAgent(), x)
}

// await waits for the first answer of an origin.
func (x *exchange) await(ctx context.Context, m *manners) {
	select {
	case <-m.ready:
		return
	default:
	}
	began := time.Now()
	timer := time.NewTimer(min(robotsPatience, patience(x)))
	defer timer.Stop()
	select {
	case <-m.ready:
	case <-timer.C:
	case <-ctx.Done():
	}
	waited := time.Since(began)
	x.uploading += waited // no work of ours
	if x.wish.wait > 0 {
		x.wish.wait = max(x.wish.wait-waited, 1)
	}
}

// askRobots begins to ask an origin for robots.txt.
func (s *Server) askRobots(t policy.Target, m *manners) {
	ctx, ok := s.robots.begin()
	if !ok {
		s.robots.learned(m, nil, false, time.Now())
		return
	}
	go func() {
		defer s.robots.done()
		var asks *crawlDelays
		answered := false
		defer func() { s.robots.learned(m, asks, answered, time.Now()) }()
		defer s.rescueErrand(t, func() {})
		asks, answered = s.readRobots(ctx, t)
	}()
}

// readRobots asks for robots.txt and follows where it has moved to on the same
// host. It is false when nothing is known then.
func (s *Server) readRobots(ctx context.Context, t policy.Target) (*crawlDelays, bool) {
	st := s.state.Load()
	site := st.policy.Match(t).Site
	at := &url.URL{Path: robotsPath}
	absolute(at, t)
	for range 1 + robotsRedirects {
		page, ok := s.fetch(ctx, st, t, at)
		switch {
		case !ok, page.status >= 500, page.status == http.StatusTooManyRequests:
			return nil, false
		case page.status/100 == 2:
			return parseCrawlDelays(page.text), true
		case page.location == "":
			return nil, true
		}
		next, err := at.Parse(page.location)
		if err != nil || next.User != nil || next.Scheme != "http" && next.Scheme != "https" {
			return nil, true
		}
		to, err := policy.ParseTarget(next.Scheme, next.Host)
		if err != nil || to.Host != t.Host || st.policy.Match(to).Site != site {
			return nil, true
		}
		at, t = next, to
		absolute(at, t)
		keepPath(at)
	}
	return nil, true
}

// page is what came for a request of our own.
type page struct {
	status   int
	location string // of a redirect
	text     []byte // of a success, up to robotsSize and a byte
}

// fetch sends a request of our own down the path of every other, so that limits,
// breaker and egress rules hold for it. It is the first that its site should see.
func (s *Server) fetch(ctx context.Context, st *state, t policy.Target, at *url.URL) (page, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	match := st.policy.Match(t)
	x := &exchange{
		state: st, target: t, client: crawler, start: time.Now(), wish: wish{urgency: 1},
		site: match.Site, rule: match.Rule, meter: s.metrics.Site(match.Site),
	}
	x.ctx = pathContext{Context: ctx, x: x}
	defer s.end(x)
	u := *at // which a site of several backends aims at one of them
	r := (&http.Request{
		Method: http.MethodGet, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {crawler.name}, "Accept": {"text/plain, */*;q=0.1"}},
	}).WithContext(&x.ctx)
	if st.nextHop != nil && t.Scheme == "http" {
		s.sign(r.Header, "")
	}
	resp, no := s.pursue(x, r)
	if no != nil {
		return page{}, false
	}
	defer resp.Body.Close()
	x.homeward(resp.Header)
	p := page{status: resp.StatusCode}
	switch p.status / 100 {
	case 2:
		late := time.AfterFunc(robotsBody, cancel)
		defer late.Stop()
		var err error
		p.text, err = io.ReadAll(io.LimitReader(resp.Body, robotsSize+1))
		return p, err == nil
	case 3:
		p.location = resp.Header.Get("Location")
	}
	return p, true
}

// limit is a Crawl-delay as the queue understands it, nil if the agent has none.
// Each delay of an origin has a meter of its own.
func (c *crawlDelays) limit(agent string, x *exchange) *queue.Limit {
	delay := c.of(productToken(agent))
	spec := c.specs[delay]
	if spec == nil {
		return nil
	}
	key := x.target.Host
	if x.target.Port != 80 && x.target.Port != 443 {
		key = x.target.HostPort()
	}
	if key == x.site {
		key = ""
	}
	return &queue.Limit{
		Name: "robots " + delay.String(), Title: "Crawl-delay of " + strconv.FormatFloat(delay.Seconds(), 'f', -1, 64) + " s",
		Key: key, Spec: spec, N: 1,
	}
}
