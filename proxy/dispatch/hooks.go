package dispatch

import (
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/tokens"
)

// hooks are what the queue calls of the dispatcher, under the lock of a site: see
// queue.Hooks.
type hooks struct{ *admission }

// The interfaces of the queue that types of other packages implement.
var (
	_ queue.Hooks     = hooks{}
	_ queue.Chooser   = (*Request)(nil)
	_ queue.Ranking   = tokens.Order{}
	_ queue.Demanding = (*ledger.Ledger)(nil)
	_ queue.Impatient = (*ledger.Ledger)(nil)
	_ queue.Unknowing = (*ledger.UnknownRoute)(nil)
	_ queue.Storable  = (*ledger.Ledger)(nil)
)

// Waits is queue.Hooks': a request has to wait.
func (hooks) Waits(q *queue.Request, p queue.Waiter) {
	if x, ok := q.Tag.(*Request); ok {
		x.beginWait(p)
	}
}

// Cooled is queue.Hooks': a cooldown begins here.
func (s hooks) Cooled(site string, at queue.Scope, until time.Time, why string) {
	s.kept.cooled(site, at, until, why)
}

// Limits is queue.Hooks': it gives a request the limits of the configuration that is new.
func (s hooks) Limits(q queue.Request) (limits [][]queue.Limit, seen uint64) {
	st := s.kept.sites.current.Load()
	if source, ok := q.Tag.(bandwidth.Tag); ok {
		return [][]queue.Limit{source.Limits()}, q.Version
	}
	if t, ok := q.Tag.(tunnel); ok {
		return t.limits(st), q.Version
	}
	x, ok := q.Tag.(*Request)
	if !ok {
		return q.Limits, q.Version
	}
	x.progress.plan = st.planOf(x.site, st.policy.Match(x.Target).Rule)
	s.findSubject(x)
	limits, _ = x.progress.plan.Needs(&x.subject)
	return limits, x.seen
}
