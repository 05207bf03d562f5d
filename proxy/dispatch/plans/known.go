package plans

import (
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store/budget"
)

// knownOf are the limits that are known of a request's service. They hold where the operator
// has written no limit of requests.
func (p *Plan) knownOf(r *Subject) []learn.KnownLimit {
	if !p.unlimited {
		return nil
	}
	return r.Documented
}

// knownLimit is a limit of a service as the queue understands it.
func (p *Plan) knownLimit(k *learn.KnownLimit) queue.Limit {
	l := policy.KnownLimit(k)
	spec := limit.Spec{As: l.As, Amount: l.Amount, Window: l.Per.Length}
	return queue.Limit{
		Name: "known " + budget.NameOf(l), Title: l.Title() + ", known of this service", Spec: &spec, N: 1, Source: p.meters(p.Rule, l, &spec),
	}
}
