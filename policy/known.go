package policy

import (
	"slices"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

// KnownLimit is a limit that a service documents, as the limit of a rule.
func KnownLimit(k *learn.KnownLimit) *Limit {
	if k.AtOnce > 0 {
		return &Limit{As: limit.Concurrency, Unit: Concurrency, Amount: k.AtOnce}
	}
	return &Limit{As: limit.Rolling, Unit: Requests, Amount: k.Requests, Per: Period{Length: k.Per}}
}

// LimitRequests reports whether any of the limits bounds how many requests go in some time.
// Where none does, those hold that the service documents.
func LimitRequests(limits []Limit) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.Unit != Concurrency && l.Unit != Bytes })
}
