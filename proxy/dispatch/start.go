package dispatch

import (
	"context"
	"net/http"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/problem"
)

// Answering answers attempts in place of sites. It calls answer once, at once or later, in the
// goroutine that steps the clock.
type Answering func(r *http.Request, answer func(*http.Response, error))

// Start is Do for virtual time: it takes the same steps, and waits without a goroutine.
// It calls done with what Do would return, in the goroutine that steps the clock; End must
// be called then. The Dispatcher must have a clock.Virtual:
//
//	v := clock.NewVirtual(start)
//	d, err := dispatch.New(dispatch.Options{Clock: v, …})
//	d.Start(ctx, x, site, done)
//	for v.Step() {
//	}
//
// For an answer with a body, Receive follows. Start asks no robots.txt and no fleet, and shares
// no answers: these need the network. Tokens must be known without an exchange.
func (s *Dispatcher) Start(ctx context.Context, x *Request, site Answering, done func(*http.Response, error)) {
	refused := s.begin(ctx, x)
	p := &virtualRequest{of: s, x: x, r: x.HTTP, site: site, done: done}
	if refused != nil {
		p.end(nil, refused)
		return
	}
	if q, limited := x.clientQuestion(); limited {
		x.progress.waitBegan = s.clock.Now()
		p.enter(q, func(permit *queue.Permit, err error) {
			p.proceed(s.admission.passedClient(x, permit, err), p.enterSite)
		})
		return
	}
	p.enterSite()
}

// Receive has the body of an answer to a request pass the limits of bytes of its site, in
// virtual time. It calls done at once or later, in the goroutine that steps the clock. limit
// names the limits of bytes that the body was under; whole is false where they have cut it.
func (s *Dispatcher) Receive(x *Request, bytes int64, done func(limit string, whole bool)) {
	b := x.bytes
	if b == nil || !b.Budgeted() {
		done("", true)
		return
	}
	b.Pass(s.clock, bytes, func(whole bool) { done(b.Title(), whole) })
}

// virtualRequest is a request on its way in virtual time.
type virtualRequest struct {
	of     *Dispatcher
	x      *Request
	r      *http.Request
	site   Answering
	done   func(*http.Response, error)
	permit *queue.Permit              // while the request waits for the first time in a queue
	next   func(*queue.Permit, error) // takes the answer of that queue
	reason string                     // why it is sent again
	waits  bool                       // the queue has the request
	woken  bool                       // goOn is about to be called
}

// wake is called under the lock of the request's site.
func (p *virtualRequest) wake() {
	if p.waits && !p.woken {
		p.woken = true
		p.of.clock.AfterFunc(0, p.goOn)
	}
}

// goOn continues after a wait.
func (p *virtualRequest) goOn() {
	p.waits, p.woken = false, false
	if permit := p.permit; permit != nil {
		p.permit = nil
		p.next(permit, permit.Woken())
		return
	}
	if err := p.x.progress.permit.Woken(); err != nil {
		p.end(nil, p.of.admission.lostPermit(p.x, err))
		return
	}
	p.granted()
}

// enter has the request wait in a queue for the first time. next takes the answer.
func (p *virtualRequest) enter(q queue.Request, next func(*queue.Permit, error)) {
	p.waits, p.next = true, next
	permit, held, err := p.of.gate.Enter(p.r.Context(), q, p.wake)
	if held {
		p.permit = permit
		return
	}
	p.waits = false
	next(permit, err)
}

// enterSite has the request wait in the queue of its site.
func (p *virtualRequest) enterSite() {
	refused := p.of.admission.breakers.refuse(p.x)
	var q queue.Request
	if refused == nil {
		q, refused = p.of.admission.prepare(p.x, p.r)
	}
	if refused != nil {
		p.end(nil, refused)
		return
	}
	p.enter(q, func(permit *queue.Permit, err error) { p.proceed(p.of.admission.entered(p.x, permit, err), p.granted) })
}

// proceed goes on after the answer of a queue, unless the answer is a problem.
func (p *virtualRequest) proceed(refused *problem.Problem, next func()) {
	if refused != nil {
		p.end(nil, refused)
		return
	}
	next()
}

// granted sends the request, or has it wait again.
func (p *virtualRequest) granted() {
	again, problem := p.of.admission.mayGo(p.x, p.r)
	switch {
	case problem != nil:
		p.end(nil, problem)
		return
	case again != nil:
		p.wait(*again)
		return
	}
	if p.reason != "" {
		p.x.meter.Replayed(p.reason)
		p.reason = ""
	}
	p.of.beginAttempt(p.x)
	request := probeOf(p.x, p.x.Caller.Attempt(p.r))
	p.x.pointAtBackend(request)
	p.site(p.x.sign(request), p.answered)
}

// wait has the request wait once more.
func (p *virtualRequest) wait(again queue.Retry) {
	p.waits = true
	if err := p.x.progress.permit.Reenter(p.r.Context(), again); err != nil {
		p.waits = false
		p.end(nil, p.of.admission.lostPermit(p.x, err))
	}
}

// answered learns from an answer, and ends the request or sends it again.
func (p *virtualRequest) answered(resp *http.Response, err error) {
	p.of.endAttempt(p.x)
	resp, v := p.of.learnAndJudge(p.x, p.r, resp, err)
	if v.again {
		p.reason = v.reason
		p.wait(p.of.admission.retryOf(p.x, v))
		return
	}
	resp, problem := p.of.result(p.x, resp, err)
	p.end(resp, problem)
}

// end gives the result.
func (p *virtualRequest) end(resp *http.Response, refused *problem.Problem) {
	p.x.meter.Waited(p.x.progress.waited)
	if refused != nil {
		p.done(nil, refused)
		return
	}
	p.done(resp, nil)
}
