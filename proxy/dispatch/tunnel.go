package dispatch

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/problem"
)

// Tunnel is an https connection of a client whose requests abide does not see. It is the meter of its
// connection to the site, and counts the bytes for its client and for its site.
type Tunnel struct {
	*bandwidth.SiteBudget
	of             *Dispatcher
	request        *Request
	received, sent atomic.Int64
}

// OpenTunnel holds a tunnel while the operator has paused its site, and until the limits of its client, if it
// has one, let it go: a tunnel counts as one request. Close must follow, unless OpenTunnel tells why the tunnel may not begin.
func (s *Dispatcher) OpenTunnel(ctx context.Context, x *Request) (*Tunnel, *problem.Problem) {
	x.HTTP = (&http.Request{Method: http.MethodConnect, URL: &url.URL{}}).WithContext(x.Bind(ctx))
	st := s.Current()
	x.site = st.policy.Match(x.Target).Site
	if limits := tunnelSite(x.site).limits(st); limits != nil && !st.policy.Observes() {
		q := queue.Request{
			Site: x.site, Client: x.ClientName(), Priority: queue.DefaultPriority, Method: x.HTTP.Method,
			Tag: tunnelSite(x.site), Generation: st.made, Limits: limits,
		}
		x.Options.bound(&q)
		permit, err := s.gate.Wait(ctx, q)
		if err != nil {
			return nil, s.problems.ofRefusal(x, err)
		}
		permit.Finish(queue.Result{Outcome: limit.Abandoned, Unsent: true})
	}
	if refused := s.admission.waitForClient(x); refused != nil {
		return nil, refused
	}
	o := bandwidth.Owner{Site: x.site, Target: x.Target, Client: x.ClientName(), Tunnel: true}
	return &Tunnel{SiteBudget: s.bytes.byteBudget(o, s.metrics.Site(x.site)), of: s, request: x}, nil
}

// Read counts bytes received from the site.
func (t *Tunnel) Read(n int) {
	t.received.Add(int64(n))
	t.SiteBudget.Read(n)
}

// Wrote counts bytes sent to the site.
func (t *Tunnel) Wrote(n int) {
	t.sent.Add(int64(n))
	t.SiteBudget.Wrote(n)
}

// Close reports the end of a tunnel that was relayed, and settles what it has taken of limits.
func (t *Tunnel) Close(relayed bool) {
	received, sent := t.received.Load(), t.sent.Load()
	if relayed && t.of.ended != nil {
		t.of.ended(Report{Site: t.request.site, Client: t.request.ClientName(), Priority: queue.DefaultPriority, Received: received, Uploaded: sent, Tunnel: true})
	}
	t.request.own.finish(queue.Result{Outcome: limit.Abandoned}, received+sent)
	t.of.bytes.Release(t.SiteBudget)
}

// tunnelSite is the tag in the queue of a tunnel that waits: the name of its site.
type tunnelSite string

// limits returns the limits that hold a tunnel: the pause of its site. The requests inside are not
// seen, so no other limit of requests counts them.
func (t tunnelSite) limits(st *Snapshot) [][]queue.Limit {
	if pause := st.overrides[string(t)].PauseLimit(); pause != nil {
		return [][]queue.Limit{{*pause}}
	}
	return nil
}
