package plans

import (
	"slices"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/sites/ledger"
)

// All are the limits of a plan that have a meter.
func (p *Plan) All() (all []queue.Limit) {
	for i := range p.Limits {
		all = append(all, p.Limits[i].Need)
		if trickle := p.Limits[i].Trickle; trickle.Spec != nil {
			all = append(all, trickle)
		}
	}
	return all
}

// Called is the limit of that identity, nil if there is none any more.
func (p *Plan) Called(identity string) *queue.Limit {
	if p == nil {
		return nil
	}
	for i := range p.Limits {
		switch limit := &p.Limits[i]; identity {
		case limit.Need.Name:
			return &limit.Need
		case limit.Trickle.Name:
			return &limit.Trickle
		}
	}
	return nil
}

// Reserve is what of announced limits is left alone.
func (p *Plan) Reserve() ledger.Reserve {
	return ledger.Reserve{Units: p.Tokens.Reserve.Units, Percent: p.Tokens.Reserve.Percent}
}

// ByRoute tells whether some limits hold for some routes only.
func (p *Plan) ByRoute() bool { return len(p.lists.routed) > 0 }

// BytesBy tells whether a limit of bytes holds for each client, or each route, alone.
func (p *Plan) BytesBy(whose string) bool {
	return slices.ContainsFunc(p.Limits, func(l Limit) bool { return l.Rule.Unit == policy.Bytes && l.Rule.By == whose })
}
