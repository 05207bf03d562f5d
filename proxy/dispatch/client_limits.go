package dispatch

import (
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/problem"
)

// clientPlans returns the limits of clients, each under the name of its client in the queue, the store and
// the status: policy.ClientSite and the client. No host has a space in its name.
func clientPlans(p *policy.Policy, parts plans.Parts) (map[string]*plans.Plan, error) {
	all := map[string]*plans.Plan{}
	for i := range p.Access.Clients {
		if c := &p.Access.Clients[i]; len(c.Limits) > 0 {
			plan, err := plans.New(p, nil, c.Limits, parts)
			if err != nil {
				return nil, err
			}
			for j := range plan.Limits {
				plan.Limits[j].Need.Title += " of the client " + c.Name
			}
			all[policy.ClientSite+c.Name] = plan
		}
	}
	return all, nil
}

// clientRequest is a request in the queue of its client, and the tag of that.
type clientRequest struct {
	x       *Request
	subject plans.Subject
}

// limits returns the limits that the client has for a request.
func (c *clientRequest) limits(st *Snapshot) [][]queue.Limit {
	all, _ := st.clients[policy.ClientSite+c.x.Client.Name].Needs(&c.subject)
	return all
}

// clientQuestion returns the request as the queue of its client sees it; ok is false if the client has no
// limits of its own.
func (x *Request) clientQuestion() (q queue.Request, ok bool) {
	if x.Client == nil || x.Snapshot.clients[policy.ClientSite+x.Client.Name] == nil {
		return q, false
	}
	r, st := x.HTTP, x.Snapshot
	c := &clientRequest{x, plans.Subject{Method: r.Method, Path: policy.NormalPath(r.URL.EscapedPath())}}
	q = queue.Request{
		Site: policy.ClientSite + x.Client.Name, Client: x.Client.Name, Priority: x.priority(), Cost: x.Options.Cost, Tag: c, Observe: st.policy.Observes(),
		Method: c.subject.Method, Path: c.subject.Path, Generation: st.made, Limits: c.limits(st),
	}
	x.Options.bound(&q)
	return q, true
}

// waitForClient holds a request until the limits of its client let it go. It comes before what
// several requests share, so that no client waits for the limits of another.
func (s *admission) waitForClient(x *Request) *problem.Problem {
	q, limited := x.clientQuestion()
	if !limited {
		return nil
	}
	s.wake()
	x.progress.waitBegan = s.clock.Now()
	permit, err := s.gate.Wait(x.waitContext(x.HTTP), q)
	return s.passedClient(x, permit, err)
}

// passedClient takes the answer of the queue of a client. What remains of the patience of the
// request is for its site.
func (s *admission) passedClient(x *Request, permit *queue.Permit, err error) *problem.Problem {
	if err != nil {
		s.noteRefusal(x, err)
		return s.problems.ofRefusal(x, err)
	}
	waited := permit.Waited()
	x.own.permit, x.own.waited = permit, waited
	if waited > 0 {
		s.activity.Released(&x.activity, policy.ClientSite+x.Client.Name, permit.BlockedBy(), waited)
		if !x.Options.now() {
			x.Options.limitWait(max(patience(x)-waited, 1))
		}
	}
	x.progress.waiter, x.progress.waited, x.progress.wouldBlock = nil, waited, permit.WouldBlock()
	return nil
}

// ownLimits holds what a request has taken of the limits of its client.
type ownLimits struct {
	permit *queue.Permit // nil: nothing
	waited time.Duration
}

// finish settles a request that has moved so many bytes.
func (o *ownLimits) finish(result queue.Result, bytes int64) {
	if o.permit != nil {
		result.Bytes, result.Exact = bytes, true
		o.permit.Finish(result)
		o.permit = nil
	}
}
