package dispatch

import (
	"net/http"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/problem"
)

// usualTrickle is the usual time between two trickles of a body that a limit of bytes holds
// up.
const usualTrickle = 5 * time.Second

// siteBytes gives requests and tunnels the byte budgets of their sites.
type siteBytes struct {
	*bandwidth.Budgets
	config *configuration
	wake   func() // is called when there are bytes to look after
}

func newSiteBytes(c *configuration, m *metrics.Metrics, trickle time.Duration) *siteBytes {
	s := &siteBytes{config: c}
	s.Budgets = bandwidth.New(bandwidth.Options{
		Gate: c.gate, Rules: s.byteRules, TrickleEvery: trickle,
		Closed: func(o bandwidth.Owner, limits string) {
			c.log.WithField("site", o.Site).WithField("limit", limits).Info("a limit of bytes kept a connection still for longer than its stall, so it is closed")
		},
		Cut: func() { m.Refused(problem.StandsStill.Reason) },
	})
	return s
}

// byteRules returns the rules of the present configuration for an owner's bytes.
func (s *siteBytes) byteRules(o bandwidth.Owner) bandwidth.Rules {
	st := s.config.current.Load()
	rules := bandwidth.Rules{Made: st.made}
	p := st.planOf(o.Site, st.policy.Match(o.Target).Rule)
	if p == nil {
		return rules
	}
	rules.Enforce, rules.Stall = p.CountsBytes && !st.policy.Observes(), p.Stall
	key := strings.TrimSpace(o.Key)
	only := lists.Find(p.Backends.Hosts, func(b *backends.Backend) bool { return b.Name == key }).OwnLimits()
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Only != only || l.Rule.Unit != policy.Bytes || !l.Rule.Covers(o.Method, o.Path) || o.Tunnel && l.Rule.NeedsRequests() {
			continue
		}
		need, trickle := l.Need, l.Trickle
		need.N, trickle.N = 1, 1
		if len(p.Backends.Hosts) > 0 || l.PerToken {
			need.Key, trickle.Key = key, key
		}
		rules.Limits, rules.Trickle = append(rules.Limits, need), append(rules.Trickle, trickle)
	}
	return rules
}

// acquire gives an exchange that is about to be sent the byte budget of its site, if
// there are limits of bytes.
func (s *siteBytes) acquire(x *Request) {
	p := x.progress.plan
	if p == nil || !p.CountsBytes {
		s.release(x)
		return
	}
	o := bandwidth.Owner{Site: x.site, Target: x.Target, Key: x.budget()}
	if p.BytesBy("client") {
		o.Client = x.ClientName()
	}
	if p.ByRoute() || p.BytesBy("route") {
		o.Method, o.Path = x.subject.Method, x.subject.Path
	}
	if x.bytes != nil && x.bytes.Owner() == o {
		return
	}
	s.release(x)
	x.bytes = s.byteBudget(o, x.meter)
}

// release takes the byte budget from an exchange.
func (s *siteBytes) release(x *Request) {
	s.Release(x.bytes)
	x.bytes = nil
}

// byteBudget finds or makes a byte budget. The caller must release it.
func (s *siteBytes) byteBudget(o bandwidth.Owner, meter *metrics.Site) *bandwidth.SiteBudget {
	s.wake()
	return s.Acquire(o, meter)
}

// tooLong refuses an answer whose announced length cannot pass by the limits of bytes
// without a pause that is longer than their stall.
func (s *siteBytes) tooLong(x *Request, resp *http.Response) *problem.Problem {
	if x.bytes == nil || resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	if at, tooLong := x.bytes.TooLong(resp.ContentLength); tooLong {
		return problem.LongBody.Until(x.bytes.Title(), at, s.config.clock.Now())
	}
	return nil
}
