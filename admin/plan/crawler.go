package plan

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// leastPause is the shortest pause of a crawler before it repeats a request.
const leastPause = time.Second

// source gives a crawler one request after the other. pause is the time between the last
// answer and the request.
type source interface {
	next() (r request, pause time.Duration, more bool)
}

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
	r, pause, more := c.source.next()
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

// later continues without a growing stack.
func (c *crawler) later(pause time.Duration, call func()) { c.of.clock.AfterFunc(pause, call) }

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
		s.tally.never(c.flight.Site(), err)
		c.later(0, c.next)
		return
	}
	s.tally.refuse(refused)
	c.again(max(refused.Retry.Truncate(time.Second), leastPause), s.titleOf(c.sends.place.target, refused.Limit))
}

// again repeats the present request after a pause, for which something is to blame.
func (c *crawler) again(pause time.Duration, blame string) {
	c.waited += pause
	c.of.tally.block(c.flight.Site(), blame, pause)
	c.later(pause, c.send)
}
