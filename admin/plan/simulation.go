package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// simulation is one run of a scenario.
type simulation struct {
	scenario   *Scenario
	policy     *policy.Policy
	clock      *clock.Virtual
	dispatcher *dispatch.Dispatcher
	site       site
	tally      tally
	sent       int // attempts, for the jitter of latencies
}

// request is one request to come.
type request struct {
	place    *place
	method   string
	priority int           // -1: not said
	latency  time.Duration // until the site has answered
	bytes    int64
}

func newSimulation(p *policy.Policy, s *Scenario) (*simulation, error) {
	if s.Log == nil {
		if err := s.Crawl.Check(); err != nil {
			return nil, err
		}
	}
	item := &simulation{
		scenario: s, policy: planned(p, s.Tokens), clock: clock.NewVirtual(s.Start),
		tally: tally{
			series: series{start: s.Start}, last: s.Start,
			blocked: map[blame]time.Duration{}, refusals: map[refusalKey]int{}, nevers: map[string]int{},
		},
		site: site{limit: s.SiteLimit, silent: s.Silent, windows: map[windowKey]limit.Meter{}},
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	log.SetLevel(logrus.PanicLevel)
	var err error
	item.dispatcher, err = dispatch.New(dispatch.Options{Policy: item.policy, Metrics: metrics.New(1), Log: log, Clock: item.clock})
	if err != nil {
		return nil, fmt.Errorf("preparing the plan: %w", err)
	}
	return item, nil
}

// jittered is the latency of an attempt: as a log has it, or up to a twentieth more or less,
// so that answers do not come all at once. The same scenario has the same latencies.
func (s *simulation) jittered(latency time.Duration) time.Duration {
	if s.scenario.Log != nil {
		return latency
	}
	s.sent++
	return latency * time.Duration(950+s.sent*7919%101) / 1000
}

// titleOf is the title of the limit that a refusal names with whose it is: "900 requests
// per 15m of a".
func (s *simulation) titleOf(t policy.Target, name string) string {
	title := ""
	for _, l := range limitsAt(s.policy, t) {
		if found := l.Title(); len(found) > len(title) && strings.HasPrefix(name, found) {
			title = found
		}
	}
	return cmp.Or(title, name)
}

// limitsAt are the limits that the policy has for a target, and for its backends.
func limitsAt(p *policy.Policy, t policy.Target) []*policy.Limit {
	rule := p.Match(t).Rule
	if rule == nil {
		return pointers(p.Defaults.Limits)
	}
	list := pointers(rule.Limits)
	for i := range rule.Backends {
		if rule.Backends[i].Own {
			list = append(list, pointers(rule.Backends[i].Limits)...)
		}
	}
	return list
}

func pointers(limits []policy.Limit) (list []*policy.Limit) {
	for i := range limits {
		list = append(list, &limits[i])
	}
	return list
}

// beginCrawl has the clients of a Crawl begin, all at once.
func (s *simulation) beginCrawl() {
	c := &s.scenario.Crawl
	left, each := c.Requests, request{place: newPlace(c.Target, c.Path), method: c.Method, priority: c.Priority, latency: c.Latency, bytes: c.Bytes}
	from := func() (request, time.Duration, bool) { // of all crawlers
		left--
		return each, 0, left >= 0
	}
	for i := range min(c.Clients, c.Requests) {
		crawler := s.newCrawler(cmp.Or(c.Client, fmt.Sprintf("client %d", i+1)), from)
		s.clock.AfterFunc(0, crawler.next)
	}
}

// replay is the source of the requests of one crawler of the log, the first at an index. alone: no other follows the first.
func replay(log *Log, at int32, alone bool) source {
	return func() (r request, pause time.Duration, more bool) {
		if at < 0 {
			return r, 0, false
		}
		record := &log.records[at]
		if at, pause = record.next, record.pause; alone {
			at, pause = -1, 0
		}
		return request{
			place: &log.places[record.place], method: log.methods[record.method], priority: int(record.priority),
			latency: record.latency, bytes: record.bytes,
		}, pause, true
	}
}

// beginReplay has the first request of each crawler of the log come when it came.
func (s *simulation) beginReplay() {
	log := s.scenario.Log
	for i := range log.records {
		if r := &log.records[i]; r.first {
			crawler := s.newCrawler(log.clients[r.client], replay(log, int32(i), false))
			s.clock.AfterFunc(r.began, crawler.next)
		}
	}
}

// replayAt has a request of the log come when it came, and then those after it.
func (s *simulation) replayAt(i int) {
	log := s.scenario.Log
	if i == len(log.records) {
		return
	}
	r := &log.records[i]
	s.clock.AfterFunc(s.scenario.Start.Add(r.began).Sub(s.clock.Now()), func() {
		s.newCrawler(log.clients[r.client], replay(log, int32(i), true)).next()
		s.replayAt(i + 1)
	})
}

// leastPause is the shortest pause of a crawler before it repeats a request.
const leastPause = time.Second

// source gives a crawler one request after the other. pause is the time between the last
// answer and the request.
type source func() (r request, pause time.Duration, more bool)

// crawler sends one request after the other.
type crawler struct {
	of      *simulation
	source  source
	name    string           // its address, where it has no name
	client  *dispatch.Client // of access.clients; nil: none
	sends   request
	flight  flight
	waited  time.Duration // for the answer to the present request, in all its tries
	answers dispatch.Answering
	done    func(*http.Response, error)
}

// flight is a request on its way, in one piece of memory.
type flight struct {
	dispatch.Request
	http http.Request
	url  url.URL
}

func (s *simulation) newCrawler(name string, from source) *crawler {
	c := &crawler{of: s, source: from, name: name, client: s.policy.Client(name)}
	c.answers, c.done = c.answer, c.answered
	return c
}

// next sends the crawler's next request.
func (c *crawler) next() {
	r, pause, more := c.source()
	if !more {
		return
	}
	c.sends, c.waited = r, 0
	if pause <= 0 {
		c.send()
		return
	}
	c.of.tally.thought += pause
	c.of.clock.AfterFunc(pause, c.send)
}

// send sends the present request, for the first time or again.
func (c *crawler) send() {
	f := &c.flight // the one before is over
	*f = flight{}
	f.url = c.sends.place.url
	f.http.Method, f.http.URL, f.http.Host, f.http.Header = c.sends.method, &f.url, f.url.Host, http.Header{}
	f.http.Proto, f.http.ProtoMajor, f.http.ProtoMinor = "HTTP/1.1", 1, 1
	f.Snapshot, f.Target, f.HTTP = c.of.dispatcher.Current(), c.sends.place.target, &f.http
	f.Client, f.Address, f.Caller, f.Start = c.client, c.name, dispatch.NoCaller{}, c.of.clock.Now()
	f.Options.Urgency = c.sends.priority + 1
	c.of.dispatcher.Start(context.Background(), &f.Request, c.answers, c.done)
}

// answer has the site answer. A site with a limit decides when the request arrives, after half
// of the latency.
func (c *crawler) answer(r *http.Request, answer func(*http.Response, error)) {
	s := c.of
	took := s.jittered(c.sends.latency)
	s.tally.latency += took
	if s.site.limit == nil {
		s.clock.AfterFunc(took, func() { answer(s.site.answer(s.clock.Now(), r, "", c.sends.bytes), nil) })
		return
	}
	token := c.flight.Report().Token
	s.clock.AfterFunc(took/2, func() {
		resp := s.site.answer(s.clock.Now(), r, token, c.sends.bytes)
		s.clock.AfterFunc(took-took/2, func() { answer(resp, nil) })
	})
}

// answered takes the result of a request, whose body is still to come.
func (c *crawler) answered(resp *http.Response, err error) {
	s := c.of
	c.waited += c.flight.Waited()
	switch {
	case err != nil:
		s.dispatcher.End(&c.flight.Request, 0)
		c.refused(err)
		return
	case resp.StatusCode != http.StatusOK: // the site's refusal, after all attempts
		s.dispatcher.End(&c.flight.Request, 0)
		s.tally.passedOn++
		c.again(leastPause, "refusals of the site")
		return
	}
	began := s.clock.Now()
	s.dispatcher.Receive(&c.flight.Request, c.sends.bytes, func(limit string, whole bool) { c.received(began, limit, whole) })
}

// received takes the end of a body.
func (c *crawler) received(began time.Time, limit string, whole bool) {
	s := c.of
	now := s.clock.Now()
	if waited := now.Sub(began); waited > 0 {
		c.waited += waited
		s.tally.block(c.flight.Site(), limit, waited)
	}
	s.dispatcher.End(&c.flight.Request, c.sends.bytes)
	if !whole {
		s.tally.cut++
		c.again(leastPause, limit)
		return
	}
	s.tally.answer(now, c.waited)
	c.next()
}

// refused repeats a request that abide has refused, when abide says that it could go. What
// can never go is left out.
func (c *crawler) refused(err error) {
	s := c.of
	var refused *problem.Problem
	if !errors.As(err, &refused) || refused.Retry <= 0 {
		count(s.tally.nevers, c.flight.Site()+": "+err.Error(), "others")
		c.of.clock.AfterFunc(0, c.next)
		return
	}
	count(s.tally.refusals, refusalKey{refused.Title, refused.Limit}, refusalKey{reason: refused.Title})
	c.again(max(refused.Retry.Truncate(time.Second), leastPause), s.titleOf(c.sends.place.target, refused.Limit))
}

// again repeats the present request after a pause, for which something is to blame.
func (c *crawler) again(pause time.Duration, blame string) {
	c.waited += pause
	c.of.tally.block(c.flight.Site(), blame, pause)
	c.of.clock.AfterFunc(pause, c.send)
}
