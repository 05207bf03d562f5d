// Package robots knows the Crawl-delays that sites ask for in robots.txt (RFC 9309).
//
//	c := robots.New(send, siteOf, log)
//	o := c.Origin(target)     // asks for robots.txt in the background where that is due
//	o.Wait(ctx, patience)     // the first answer
//	limit := c.Limit(o, site, userAgent)
package robots

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
	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
)

// Bounds of the requests for robots.txt.
const (
	mostOrigins   = 4096             // that are remembered
	firstPatience = 10 * time.Second // of a request for the first answer
	answerLife    = 24 * time.Hour   // until an origin is asked again
	retryAfter    = 10 * time.Minute // the same, where there was no answer
	bodyPatience  = time.Minute      // for all of a body, once it has begun
	mostRedirects = 5
)

// Path is the path of robots.txt at every origin.
const Path = "/robots.txt"

// UserAgent is the User-Agent of abide's requests for robots.txt.
const UserAgent = "abide"

// Cache has the Crawl-delays of origins.
type Cache struct {
	tasks  background.Tasks
	send   func(*http.Request) (*http.Response, error)
	siteOf func(policy.Target) string

	mu    sync.Mutex
	known *simplelru.LRU[policy.Target, *Origin]
}

// New makes a cache that sends its requests with send, under the limits of every other
// request. siteOf returns the site of a target: a redirect to another site is not followed.
func New(send func(*http.Request) (*http.Response, error), siteOf func(policy.Target) string, log *logrus.Logger) *Cache {
	known, _ := simplelru.NewLRU[policy.Target, *Origin](mostOrigins, nil) // fails for sizes below 1 only
	return &Cache{tasks: background.Tasks{Log: log}, send: send, siteOf: siteOf, known: known}
}

// Cancel ends the requests for robots.txt that are on their way. It waits for nothing.
func (c *Cache) Cancel() { c.tasks.Cancel() }

// End cancels like Cancel, and returns when nothing is on its way any more.
func (c *Cache) End() { c.tasks.End() }

// Origin is a scheme, host and port, and what its robots.txt asks for.
type Origin struct {
	ready chan struct{} // closed when robots.txt was asked for the first time

	// Guarded by Cache.mu.
	asking bool
	until  time.Time // when to ask again
	delays *crawlDelays
}

// Origin finds the origin of a target. It begins to ask for robots.txt where that is due.
func (c *Cache) Origin(t policy.Target) *Origin {
	o, due := c.find(t, time.Now())
	if due {
		c.ask(t, o)
	}
	return o
}

// find finds or adds an origin. Due says that the caller has to ask for robots.txt.
func (c *Cache) find(t policy.Target, now time.Time) (o *Origin, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.known.Get(t)
	if !ok {
		o = &Origin{ready: make(chan struct{})}
		t.Host = strings.Clone(t.Host) // not a piece of a request's buffer
		c.known.Add(t, o)
	}
	due = !o.asking && !now.Before(o.until)
	o.asking = o.asking || due
	return o, due
}

// update stores an answer. Without one, the delays from before hold on.
func (c *Cache) update(o *Origin, delays *crawlDelays, answered bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := o.until.IsZero()
	o.asking, o.until = false, now.Add(retryAfter)
	if answered {
		o.delays, o.until = delays, now.Add(answerLife)
	}
	if first {
		close(o.ready)
	}
}

// Wait waits for the first answer of an origin, but not for long. It tells for how long it
// has waited.
func (o *Origin) Wait(ctx context.Context, patience time.Duration) time.Duration {
	select {
	case <-o.ready:
		return 0
	default:
	}
	began := time.Now()
	timer := time.NewTimer(min(firstPatience, patience))
	defer timer.Stop()
	select {
	case <-o.ready:
	case <-timer.C:
	case <-ctx.Done():
	}
	return time.Since(began)
}

// Limit returns the Crawl-delay for a User-Agent as the queue understands it, nil if there is
// none. Each delay of an origin has a meter of its own at its site.
func (c *Cache) Limit(o *Origin, t policy.Target, site, userAgent string) *queue.Limit {
	c.mu.Lock()
	delays := o.delays
	c.mu.Unlock()
	if delays == nil {
		return nil
	}
	delay := delays.of(productToken(userAgent))
	spec := delays.specs[delay]
	if spec == nil {
		return nil
	}
	key := t.Host
	if t.Port != 80 && t.Port != 443 {
		key = t.HostPort()
	}
	if key == site {
		key = ""
	}
	return &queue.Limit{
		Name: "robots " + delay.String(), Title: "Crawl-delay of " + strconv.FormatFloat(delay.Seconds(), 'f', -1, 64) + " s",
		Key: key, Spec: spec, N: 1,
	}
}

// ask begins to ask an origin for robots.txt.
func (c *Cache) ask(t policy.Target, o *Origin) {
	ctx, ok := c.tasks.Begin()
	if !ok {
		c.update(o, nil, false, time.Now())
		return
	}
	go func() {
		defer c.tasks.Done()
		var delays *crawlDelays
		answered := false
		defer func() { c.update(o, delays, answered, time.Now()) }()
		defer c.tasks.Recover(t.Host, func() {})
		delays, answered = c.read(ctx, t)
	}()
}

// read asks for robots.txt, and follows redirects on the same host of the same site. It returns
// false if nothing is known then.
func (c *Cache) read(ctx context.Context, t policy.Target) (*crawlDelays, bool) {
	site, at := c.siteOf(t), &url.URL{Scheme: t.Scheme, Host: t.HostPort(), Path: Path}
	for range 1 + mostRedirects {
		page, ok := c.fetch(ctx, at)
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
		if err != nil || to.Host != t.Host || c.siteOf(to) != site {
			return nil, true
		}
		at = next
	}
	return nil, true
}

// page is the answer to one request.
type page struct {
	status   int
	location string // of a redirect
	text     []byte // of a success, up to mostBytes and one more
}

// fetch sends one request. It returns false if there is no whole answer.
func (c *Cache) fetch(ctx context.Context, at *url.URL) (page, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := *at // which sending may change
	resp, err := c.send((&http.Request{
		Method: http.MethodGet, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {UserAgent}, "Accept": {"text/plain, */*;q=0.1"}},
	}).WithContext(ctx))
	if err != nil {
		return page{}, false
	}
	defer resp.Body.Close()
	p := page{status: resp.StatusCode}
	switch p.status / 100 {
	case 2:
		late := time.AfterFunc(bodyPatience, cancel)
		defer late.Stop()
		p.text, err = io.ReadAll(io.LimitReader(resp.Body, mostBytes+1))
		return p, err == nil
	case 3:
		p.location = resp.Header.Get("Location")
	}
	return p, true
}
