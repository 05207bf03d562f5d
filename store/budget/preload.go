package budget

import (
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// maxPreloaded bounds the budgets that are loaded at the start. Others are loaded when they
// are used.
const maxPreloaded = 10_000

// keyOfOthers is the key of a slot of the queue that many clients or routes share.
const keyOfOthers = "other"

// Preload loads the budgets with used units at the start, the last used first, so that the
// status shows them before any request. limitOf is the limit of a site by its name, nil if
// it does not exist any more. load is called with requests that take from these limits.
func (k *Keeper) Preload(limitOf func(site, name string) *queue.Limit, load func(queue.Request)) {
	if k == nil {
		return
	}
	now, n := time.Now(), 0
	for i := range k.restored.recent {
		savedBudget := &k.restored.recent[i]
		name, whose, _ := strings.Cut(savedBudget.Key, store.Separator)
		need := limitOf(savedBudget.Site, name)
		if need == nil || need.Source == nil || !counts(now, need.Spec, savedBudget) {
			continue
		}
		for _, key := range k.names.Local(savedBudget.Site, name, whose) {
			if key != keyOfOthers { // no client or route has this key yet
				load(requestOf(savedBudget.Site, *need, key))
			}
		}
		if n++; n >= maxPreloaded {
			return
		}
	}
}

// counts tells whether a stored budget still has used units that count.
func counts(now time.Time, spec *limit.Spec, savedBudget *store.SavedBudget) bool {
	m, err := limit.New(*spec)
	return err == nil && (lease.Restore(now, *spec, m, savedBudget.State, savedBudget.Ahead) != nil || !m.Idle(now))
}

// requestOf is a request that takes from the limit's meter with that key.
func requestOf(site string, need queue.Limit, key string) queue.Request {
	r := queue.Request{Site: site}
	switch need.Key = ""; need.By {
	case queue.ByClient:
		r.Client = key
	case queue.ByRoute:
		r.Method, r.Path, _ = strings.Cut(key, " ")
	default:
		need.Key = key
	}
	r.Limits = [][]queue.Limit{{need}}
	return r
}
