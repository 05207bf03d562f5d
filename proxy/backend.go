package proxy

import (
	"hash/maphash"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// backend is one of several equal places that a site stands for.
type backend struct {
	name   string // as the operator calls it, or its origin
	weight int
	only   string // its name if it has limits of its own; see planned.only
	target policy.Target
	slot   queue.Limit // cools alone
	load   *load
}

// limits is what planned.only says of the limits that hold for a backend, which may be
// nil.
func (b *backend) limits() string {
	if b == nil {
		return ""
	}
	return b.only
}

// backend is the one with a name, nil if there is none.
func (p *plan) backend(name string) *backend {
	for i := range p.backends {
		if p.backends[i].name == name {
			return &p.backends[i]
		}
	}
	return nil
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

// pick is the balance. It counts the choice where the next one depends on it.
func (p *plan) pick(ready []int, client string, now time.Time) int {
	switch {
	case len(p.backends) == 0 || slices.Max(ready) >= len(p.backends):
		return ready[0]
	case p.sticky:
		return p.stick(ready, client)
	case p.balance == "round-robin":
		return p.rotation.next(ready)
	case p.balance == "least-loaded":
		return p.rotation.next(p.leastLoaded(ready))
	}
	best, least := ready[0], math.Inf(1)
	for _, i := range ready {
		b := &p.backends[i]
		if cost := b.load.cost(now) / float64(b.weight); cost < least {
			best, least = i, cost
		}
	}
	return best
}

// stick is the backend of a client, each with the share of clients that its weight
// says (rendezvous hashing).
func (p *plan) stick(ready []int, client string) int {
	best, most := ready[0], 0.0
	for _, i := range ready {
		b := &p.backends[i]
		part := (float64(maphash.Comparable(stickiness, [2]string{client, b.name})>>11) + 0.5) / (1 << 53)
		if score := -float64(b.weight) / math.Log(part); score > most {
			best, most = i, score
		}
	}
	return best
}

// leastLoaded are the backends that have the fewest requests under way, for their
// weight.
func (p *plan) leastLoaded(ready []int) []int {
	var least []int
	var flying, weight int64
	for _, i := range ready {
		b := &p.backends[i]
		n, w := b.load.flying.Load(), int64(b.weight)
		if least != nil && n*weight > flying*w {
			continue
		}
		if least == nil || n*weight < flying*w {
			least, flying, weight = least[:0], n, w
		}
		least = append(least, i)
	}
	return least
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
