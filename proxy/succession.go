package proxy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

// succession is which limits a site has had, and which it has now that are new.
func succession(old, next *state, site string) (had, fresh []queue.Limit) {
	before := old.planOf(site, old.policy.RuleOf(site))
	now := next.planOf(site, next.policy.RuleOf(site))
	if now == nil || before == now {
		return nil, nil
	}
	if before != nil {
		had = before.all()
	}
	names := map[string]bool{}
	for _, one := range had {
		names[one.Name] = true
	}
	for _, one := range now.all() {
		if !names[one.Name] && one.Subject != nil {
			fresh = append(fresh, one)
		}
	}
	return had, fresh
}

// all are the limits of a plan that have a meter.
func (p *plan) all() (all []queue.Limit) {
	for i := range p.limits {
		all = append(all, p.limits[i].need)
		if trickle := p.limits[i].trickle; trickle.Spec != nil {
			all = append(all, trickle)
		}
	}
	return all
}

// holds tells whether a site has a limit of that name now.
func (s *Server) holds(site, name string) bool {
	st := s.state.Load()
	return st.planOf(site, st.policy.RuleOf(site)).called(name) != nil
}

// spentBefore is what was spent, before this process began, of limits that the one of a
// key replaces: of those that hold no more and were used after it was, at a time.
func (d *desk) spentBefore(site, key string, after time.Time, holds func(site, limit string) bool) []limit.Spent {
	d.mu.Lock()
	all := d.earlier
	d.mu.Unlock()
	from, _ := slices.BinarySearchFunc(all, site, func(k store.Kept, site string) int { return cmp.Compare(k.Site, site) })
	name, whose, _ := strings.Cut(key, between)
	subject, _ := subjectIn(name)
	var was []queue.Former
	for ; from < len(all) && all[from].Site == site; from++ {
		k := &all[from]
		old, key, _ := strings.Cut(k.Key, between)
		if old == name || !k.At.After(after) || holds(site, old) {
			continue
		}
		if of, as := subjectIn(old); of.Unit != "" {
			was = append(was, queue.Former{Subject: of, Key: key, Past: func(now time.Time) []limit.Spent { return pastOf(now, as, k) }})
		}
	}
	if len(was) == 0 {
		return nil
	}
	return queue.Inherit(time.Now(), subject, "", was)[whose]
}

// pastOf is what a stored budget of an arithmetic says was spent.
func pastOf(now time.Time, as limit.As, k *store.Kept) []limit.Spent {
	spec := limit.Spec{As: as, Amount: 1 << 50, Window: 365 * 24 * time.Hour, Period: limit.Month, Min: 1, Max: 1}
	if as == limit.Bucket || as == limit.Paced {
		spec.Amount = 1 // what its amount was is not known, so that only its past counts
	}
	m, err := limit.New(spec)
	if err != nil || m.Restore(now, k.State) != nil && len(k.State) > 0 {
		return nil
	}
	list := limit.PastOf(now, m)
	if k.Ahead > 0 {
		list = append(list, limit.Spent{N: k.Ahead})
	}
	return list
}

// subjectIn reads from a limit's name what it counts, and how: see identity.
func subjectIn(name string) (queue.Subject, limit.As) {
	name, trickle := strings.CutSuffix(name, trickleSuffix)
	part := strings.SplitN(name, " ", 10)
	if len(part) < 10 || part[2] != "per" || part[5] != "by" || part[7] != "for" || part[1] == "concurrency" {
		return queue.Subject{}, ""
	}
	path, at, _ := strings.Cut(part[9], " at ")
	path, _, _ = strings.Cut(path, " ")
	s := queue.Subject{Unit: part[1], By: part[6], At: at, Method: part[8], Path: path}
	if trickle {
		s.Unit += trickleSuffix
	}
	return s, limit.As(part[0])
}
