// Package robots knows the Crawl-delays that sites ask for in robots.txt (RFC 9309).
//
//	c := robots.New(send, siteOf, log)
//	o := c.Origin(target)     // asks for robots.txt in the background where that is due
//	o.Wait(ctx, patience)     // the first answer
//	limit := c.Limit(o, target, site, &userAgent)
package robots

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/limit"
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
	background.Tasks // that send the requests

	send   func(r *http.Request, read func(*http.Response)) error
	siteOf func(policy.Target) string

	mu    sync.Mutex
	known *simplelru.LRU[policy.Target, *Origin]
}

// New makes a cache that sends its requests with send, under the limits of every other
// request. siteOf returns the site of a target: a redirect to another site is not followed.
func New(send func(r *http.Request, read func(*http.Response)) error, siteOf func(policy.Target) string, log *logrus.Logger) *Cache {
	known, _ := simplelru.NewLRU[policy.Target, *Origin](mostOrigins, nil) // fails for sizes below 1 only
	return &Cache{Tasks: background.Tasks{Log: log}, send: send, siteOf: siteOf, known: known}
}

// Origin is a scheme, host and port, and what its robots.txt asks for.
type Origin struct {
	ready chan struct{} // closed when robots.txt was asked for the first time

	// Guarded by Cache.mu.
	asking bool
	until  time.Time // when to ask again
	delays *crawlDelays
	delay  time.Duration // of the last request
}

// Origin finds the origin of a target. It begins to ask for robots.txt where that is due.
func (c *Cache) Origin(t policy.Target) *Origin {
	o, due := c.find(t, time.Now())
	if due {
		c.ask(t, o)
	}
	return o
}

// Known returns the origin of a target if it was asked for before, else nil.
func (c *Cache) Known(t policy.Target) *Origin {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, _ := c.known.Peek(t)
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
	select {
	case <-o.ready:
	case <-time.After(min(firstPatience, patience)):
	case <-ctx.Done():
	}
	return time.Since(began)
}

// Limit returns the Crawl-delay for a User-Agent, or without one for that of the last call, as the queue understands
// it, nil if there is none, as of no origin. Each delay of an origin has a meter of its own at its site.
func (c *Cache) Limit(o *Origin, t policy.Target, site string, userAgent *string) *queue.Limit {
	if o == nil {
		return nil
	}
	c.mu.Lock()
	delays := o.delays
	if delays != nil && userAgent != nil {
		o.delay = delays.of(productToken(*userAgent))
	}
	delay := o.delay
	c.mu.Unlock()
	if delays == nil {
		return nil
	}
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
	ctx, ok := c.Begin()
	if !ok {
		c.update(o, nil, false, time.Now())
		return
	}
	go func() {
		defer c.Done()
		var delays *crawlDelays
		answered := false
		defer func() { c.update(o, delays, answered, time.Now()) }()
		defer c.Recover(t.Host, func() {})
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
	var p page
	var cut error
	err := c.send((&http.Request{
		Method: http.MethodGet, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {UserAgent}, "Accept": {"text/plain, */*;q=0.1"}},
	}).WithContext(ctx), func(resp *http.Response) {
		p.status = resp.StatusCode
		switch p.status / 100 {
		case 2:
			late := time.AfterFunc(bodyPatience, cancel)
			defer late.Stop()
			p.text, cut = io.ReadAll(io.LimitReader(resp.Body, mostBytes+1))
		case 3:
			p.location = resp.Header.Get("Location")
		}
	})
	return p, err == nil && cut == nil
}

// Bounds of the parts of a robots.txt that are read.
const (
	mostBytes     = 500 << 10 // RFC 9309 asks for as much at least
	mostAgents    = 512       // that are told apart
	longestAgent  = 64
	longestDelay  = time.Hour
	shortestDelay = time.Millisecond
)

// crawlDelays has the delays of the groups of one robots.txt.
type crawlDelays struct {
	delays map[string]time.Duration      // :: agent in lower case → its delay; 0: none
	specs  map[time.Duration]*limit.Spec // :: delay → its limit, the same for all requests
}

// parseCrawlDelays reads a robots.txt; it returns nil when there are no delays. Lines that
// cannot be read are passed over, as RFC 9309 has it.
func parseCrawlDelays(text []byte) *crawlDelays {
	if len(text) > mostBytes {
		text = text[:mostBytes]
		text = text[:bytes.LastIndexAny(text, "\r\n")+1] // no half of a line
	}
	c := &crawlDelays{readGroups(string(text)), map[time.Duration]*limit.Spec{}}
	for _, delay := range c.delays {
		if delay > 0 {
			c.specs[delay] = &limit.Spec{As: limit.Paced, Amount: 1, Window: delay}
		}
	}
	if len(c.specs) == 0 {
		return nil
	}
	return c
}

// of returns the delay for a product, 0 if there is none: that of the longest agent with which the
// name of the product begins.
func (c *crawlDelays) of(product string) time.Duration {
	product = strings.ToLower(product)
	for n := min(len(product), longestAgent); n > 0; n-- {
		if delay, known := c.delays[product[:n]]; known {
			return delay
		}
	}
	return c.delays["*"]
}

// readGroups returns the Crawl-delay of each agent in a robots.txt. A group without one says nothing
// against what another group of the agent asks for.
func readGroups(text string) map[string]time.Duration {
	delays := map[string]time.Duration{}
	var agents []string
	delay, began := time.Duration(0), false // of the group: a line that is no agent ends its head
	flush := func() {
		for _, name := range agents {
			_, told := delays[name]
			if !told && name != "*" && len(delays) >= mostAgents {
				continue
			}
			if !told || delay > 0 {
				delays[name] = delay
			}
		}
		agents, delay, began = agents[:0], 0, false
	}
	for line := range strings.FieldsFuncSeq(strings.TrimPrefix(text, "\ufeff"), func(c rune) bool { return c == '\n' || c == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "user-agent", "useragent":
			if began {
				flush()
			}
			if value = strings.ToLower(productOf(value)); value != "" && len(value) <= longestAgent {
				agents = append(agents, value)
			}
		case "allow", "disallow":
			began = true
		case "crawl-delay", "crawldelay":
			began = true
			if strings.Trim(value, "0123456789.") != "" {
				continue
			}
			if d, err := strconv.ParseFloat(value, 64); err == nil || math.IsInf(d, 1) {
				delay = readDelay(d)
			}
		}
	}
	flush()
	return delays
}

// readDelay returns a number of seconds within the bounds of a Crawl-delay.
func readDelay(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	d := time.Duration(min(seconds, longestDelay.Seconds()) * float64(time.Second))
	return max(d.Round(shortestDelay), shortestDelay)
}

// productToken returns the name of a User-Agent in robots.txt: its first product, or the one
// that it claims to be beside a browser.
func productToken(agent string) string {
	if _, claim, ok := strings.Cut(agent, "compatible;"); ok && strings.HasPrefix(agent, "Mozilla/") {
		if product := productOf(strings.TrimSpace(claim)); product != "" {
			return product
		}
	}
	return productOf(agent)
}

// productOf returns a name without what follows it, such as its version.
func productOf(s string) string {
	end := strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("/;:,()\"", c) })
	if end < 0 {
		return s
	}
	return s[:end]
}
