package proxy

import (
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// backend is one of several equal places that a site stands for.
type backend struct {
	name   string // its origin, of which https goes without saying
	target policy.Target
	slot   queue.Limit // cools alone
	load   *load
}

// party is what a breaker is about: a site, or one of its backends.
type party struct{ site, backend string }

func partyOf(site string, b *backend) party {
	if b == nil {
		return party{site: site}
	}
	return party{site, b.name}
}

// backend is where the request's permit sends it, nil if that is its target.
func (x *exchange) backend() *backend {
	t := &x.turn
	if t.permit == nil || t.plan == nil || t.permit.Choice() >= len(t.plan.backends) {
		return nil
	}
	return &t.plan.backends[t.permit.Choice()]
}

// party is whose breaker the request's attempt is about. Of several hosts that are
// one site each has its own: a dead name among them says nothing about the others.
func (x *exchange) party() party {
	who := partyOf(x.site, x.backend())
	if who.backend == "" && x.grouped() {
		who.backend = x.target.Host
	}
	return who
}

// grouped tells whether the site is more than the host.
func (x *exchange) grouped() bool {
	return x.rule != nil && x.rule.Group != "" && x.rule.Group != "host"
}

// aim points the request at what it is sent to.
func (x *exchange) aim(r *http.Request) policy.Target {
	t := x.target
	if b := x.backend(); b != nil {
		t = b.target
	} else if !x.turn.aimed {
		return t
	}
	x.turn.aimed = true
	absolute(r.URL, t)
	r.Host = r.URL.Host
	return t
}

// embark counts an attempt that is about to be made, unless that was done when its
// backend was chosen.
func (x *exchange) embark() {
	if b := x.backend(); b != nil && b != x.turn.at {
		x.turn.left()
		b.load.begin()
		x.turn.at = b
	}
}

// left is for an attempt that is over.
func (t *turn) left() {
	if t.at != nil {
		t.at.load.flying.Add(-1)
		t.at = nil
	}
}

// heard tells a backend's load how an attempt went.
func (t *turn) heard(how health, took time.Duration, now time.Time) {
	if t.at == nil {
		return
	}
	t.at.load.hear(took, how, now)
	if how == ill {
		t.avoid = append(t.avoid, t.at.name)
	}
}

// abandoned is for an attempt whose client left before there was an answer, which
// says something only if that took long: a backend that hangs is slow.
func (t *turn) abandoned(took time.Duration, now time.Time) {
	if t.at != nil && took >= forgiving*time.Second {
		t.at.load.hear(took, well, now)
	}
}

// elsewhere tells whether another backend has not failed this request yet.
func (t *turn) elsewhere() bool {
	if t.plan == nil {
		return false
	}
	for i := range t.plan.backends {
		if b := &t.plan.backends[i]; b != t.at && !slices.Contains(t.avoid, b.name) {
			return true
		}
	}
	return false
}

// choose says which of the backends that could take a request now does. It is
// asked by the queue, under the lock of the site, and counts what it says there and
// then: the next request may be let go before this one runs.
func (x *exchange) choose(ready []int) int {
	p := x.turn.plan
	fit := ready
	if len(x.turn.avoid) > 0 {
		if fresh := slices.DeleteFunc(slices.Clone(ready), func(i int) bool {
			return i >= len(p.backends) || slices.Contains(x.turn.avoid, p.backends[i].name)
		}); len(fresh) > 0 {
			fit = fresh
		}
	}
	i := p.pick(fit, x.clientName(), time.Now())
	if i < len(p.backends) {
		x.turn.left()
		x.turn.at = &p.backends[i]
		x.turn.at.load.begin()
	}
	return i
}

var stickiness = maphash.MakeSeed()

// pick is the balance.
func (p *plan) pick(ready []int, client string, now time.Time) int {
	if len(p.backends) == 0 || slices.Max(ready) >= len(p.backends) {
		return ready[0]
	}
	better := func(a, b *load) bool { return a.cost(now) < b.cost(now) }
	switch {
	case p.sticky:
		best, most := ready[0], uint64(0)
		for _, i := range ready {
			if h := maphash.Comparable(stickiness, [2]string{client, p.backends[i].name}); h >= most {
				best, most = i, h
			}
		}
		return best
	case p.balance == "round-robin":
		better = func(a, b *load) bool { return a.last.Load() < b.last.Load() }
	case p.balance == "least-loaded":
		better = func(a, b *load) bool {
			if x, y := a.flying.Load(), b.flying.Load(); x != y {
				return x < y
			}
			return a.last.Load() < b.last.Load()
		}
	}
	best := ready[0]
	for _, i := range ready[1:] {
		if better(p.backends[i].load, p.backends[best].load) {
			best = i
		}
	}
	return best
}

// homeward makes a redirect of a backend to itself or to an equal one a redirect
// to the site: a client that follows it stays where its limits are.
func (x *exchange) homeward(h http.Header) {
	if x.turn.plan == nil || len(x.turn.plan.backends) == 0 {
		return
	}
	for _, name := range [...]string{"Location", "Content-Location"} {
		values := h[name]
		if len(values) != 1 {
			continue
		}
		u, err := url.Parse(values[0])
		if err != nil || u.Host == "" {
			continue
		}
		scheme := u.Scheme
		if scheme == "" {
			scheme = x.target.Scheme
		}
		t, err := policy.ParseTarget(scheme, u.Host)
		if err != nil {
			continue
		}
		for i := range x.turn.plan.backends {
			if x.turn.plan.backends[i].target == t {
				u.Scheme, u.Host = x.target.Scheme, hostOf(x.target)
				h[name] = []string{u.String()}
				break
			}
		}
	}
}
