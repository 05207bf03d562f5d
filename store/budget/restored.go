package budget

import (
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// restored are the budgets that the store had at the start of the process. It is safe for
// concurrent use.
type restored struct {
	recent []store.SavedBudget // last used first
	bySite map[string][]*store.SavedBudget

	mu     sync.Mutex
	unused map[budgetOf]*store.SavedBudget // not taken by a limit yet
	left   map[slotOf]int64                // units left when limits took their budgets, until takeLeft
}

type (
	// budgetOf identifies a budget as the store does, and slotOf as the queue does.
	budgetOf struct{ site, key string }
	slotOf   struct {
		site string
		at   queue.Scope
	}
)

func newRestored(all []store.SavedBudget) *restored {
	r := &restored{recent: all, bySite: map[string][]*store.SavedBudget{}, unused: make(map[budgetOf]*store.SavedBudget, len(all)), left: map[slotOf]int64{}}
	for i := range all {
		k := &all[i]
		r.unused[budgetOf{k.Site, k.Key}], r.bySite[k.Site] = k, append(r.bySite[k.Site], k)
	}
	return r
}

// take returns the store's state of a budget, once.
func (r *restored) take(site, key string) (was store.SavedBudget, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	saved, known := r.unused[budgetOf{site, key}]
	if known {
		was = *saved
		delete(r.unused, budgetOf{site, key})
	}
	return was, known
}

// has tells whether a stored budget was not taken yet.
func (r *restored) has(site, key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unused[budgetOf{site, key}] != nil
}

// setLeft records how much of a limit was left when it took its budget.
func (r *restored) setLeft(site string, at queue.Scope, left int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[slotOf{site, at}] = left
}

// takeLeft returns that, once.
func (r *restored) takeLeft(site string, at queue.Scope) (left int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, known = r.left[slotOf{site, at}]
	delete(r.left, slotOf{site, at})
	return left, known
}

// before lists the keys of budgets that another may replace, which was saved at a time: of limits that are replaced, or
// that counted the same later. If the store did not know it, the time is zero and they are all.
func (r *restored) before(site string, h *addition, saved time.Time, replaced func(limit string) bool) (keys []string) {
	subject, _ := subjectIn(h.name)
	for _, k := range r.bySite[site] {
		name, whose, _ := strings.Cut(k.Key, store.Separator)
		of, _ := subjectIn(name)
		if later := of == subject && k.At.Sub(saved) > 2*time.Second; name != h.name && (whose == h.whose || h.whose == "") && (saved.IsZero() || later || replaced(name)) {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// addition is a budget to which the store has to add what was spent of others.
type addition struct {
	name, whose string // of the budget
	spec        limit.Spec
	before      []string // keys of the others
	asked       bool     // the store was asked to
}

// inherit implements store.Joint.Inherit.
func (h *addition) inherit(now time.Time, state []byte, before []*store.SavedBudget) []byte {
	var was []queue.Predecessor
	subject, _ := subjectIn(h.name)
	for _, k := range before {
		old, key, _ := strings.Cut(k.Key, store.Separator)
		of, as := subjectIn(old)
		was = append(was, queue.Predecessor{Subject: of, Key: key, Ended: now.Sub(k.At), Past: pastOf(now, as, k)})
	}
	m, err := limit.New(h.spec)
	if err == nil {
		m, _ = lease.Restore(now, h.spec, m, state, 0) // an invalid state is ignored
		m, err = limit.Add(now, m, queue.Inherit(subject, "", was)[h.whose], h.spec)
	}
	if err != nil {
		return state
	}
	return m.State()
}

// pastOf lists the takes in a stored budget's state, for a kind of limit.
func pastOf(now time.Time, as limit.As, k *store.SavedBudget) []limit.Spent {
	spec := limit.Spec{As: as, Amount: 1 << 50, Window: 365 * 24 * time.Hour, Period: limit.Month, Min: 1, Max: 1}
	if as.Traits().Returns == limit.Continuously {
		spec.Amount = 1 // the amount is not known, so that only the past counts
	}
	m, err := limit.New(spec)
	if err == nil && m.Restore(now, k.State) != nil && as.Traits().Returns == limit.AfterFirstUse {
		spec.As = limit.Rolling // as which several processes share it
		m, err = limit.New(spec)
	}
	if err != nil || len(k.State) > 0 && m.Restore(now, k.State) != nil {
		return nil
	}
	list := limit.PastOf(now, m)
	if k.Ahead > 0 {
		list = append(list, limit.Spent{N: k.Ahead})
	}
	return list
}

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
		for _, key := range k.o.Names.Local(savedBudget.Site, name, whose) {
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
	if err == nil {
		m, err = lease.Restore(now, *spec, m, savedBudget.State, savedBudget.Ahead)
	}
	return m != nil && (err != nil || !m.Idle(now))
}

// requestOf makes a request that takes from the limit's meter with that key.
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
