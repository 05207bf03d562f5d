package dispatch

import (
	"context"
	"errors"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/problem"
)

// tunnel is what the queue has of a tunnel that waits: the name of its site.
type tunnel string

// limits are what holds a tunnel: the pause of its site. Requests inside are not seen, so no other
// limit of requests is about them.
func (t tunnel) limits(st *Snapshot) [][]queue.Limit {
	if pause := st.own[string(t)].PauseLimit(); pause != nil {
		return [][]queue.Limit{{*pause}}
	}
	return nil
}

// WaitForTunnel holds a tunnel to a target while the operator has paused the site.
func (s *Dispatcher) WaitForTunnel(ctx context.Context, to policy.Target, client string, o RequestOptions) *problem.Problem {
	st := s.Current()
	if len(st.own) == 0 {
		return nil // the operator has set nothing
	}
	site := st.policy.Match(to).Site
	limits := tunnel(site).limits(st)
	if limits == nil || st.policy.Observes() {
		return nil
	}
	q := queue.Request{
		Site: site, Client: client, Priority: queue.DefaultPriority, Method: "CONNECT",
		Tag: tunnel(site), Generation: st.made, Limits: limits,
	}
	if o.Limited {
		if q.Wait, q.Now = o.Wait, o.now(); q.Now {
			q.Wait = leastWait
		}
	}
	permit, err := s.gate.Wait(ctx, q)
	var refusal *queue.Refusal
	switch {
	case errors.As(err, &refusal):
		return s.problems.ofRefusal(&Request{Snapshot: st, Target: to, matched: matched{site: site}}, err)
	case err != nil:
		return problem.Left
	}
	permit.Finish(queue.Result{Outcome: limit.Abandoned, Unsent: true})
	return nil
}

// EndTunnel reports a tunnel of a client that has moved so many bytes.
func (s *Dispatcher) EndTunnel(site, client string, received, sent int64) {
	if s.ended != nil {
		s.ended(Report{Site: site, Client: client, Priority: queue.DefaultPriority, Received: received, Uploaded: sent, Tunnel: true})
	}
}
