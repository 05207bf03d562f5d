package ledger

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/learn"
)

// Bounds of the limits of a site.
const (
	mostGroups     = 192 // announced
	mostHidden     = 64  // not announced
	mostBudgets    = 4096
	spareBudget    = 256 // how many are forgotten at once when there are more
	mostPartitions = 8   // of one limit
	mostAlike      = 4   // limits of one name and different amounts on one route
	forgetful      = time.Hour
)

// alike are limits that only their amounts and resets tell apart.
type alike struct {
	host, name, partition string
	part                  string // what has it for itself, empty is nothing
	unit                  learn.Unit
}

// named is a limit that the server names.
type named struct {
	bucket string
	alike
}

// A group is one limit of the site's, and the routes that are under it share it.
type group struct {
	number uint64
	id     string
	title  string
	kind   Kind

	bucket string // empty is not named
	alike
	amount  learn.Amount
	window  time.Duration
	private bool // it is one route's
	site    bool // it is everybody's
	apart   bool // nothing says that routes which have not answered are in it

	routes  int // that are in it
	seen    time.Time
	until   time.Time          // the latest reset that was said
	budgets map[string]*memory // :: budget → what was said last
	mark    uint64             // the answer that showed it last
	moving  int                // times that its reset moved inside a window; 2 is a reset that moves
	rose    int                // times that one route alone showed more than before; 2 is one that may

	other    *group // which explains its foreign use
	agreeing int    // times that it did
	suspects []*memory
	pairs    []*pair

	leaving bool // it is about to be forgotten
}

// hearing is a limit of an answer on the way to its group.
type hearing struct {
	now, sent time.Time
	budget    string
	said      *learn.Limit
	lesson    *learn.Lesson
	mark      uint64
}

// documented says whether each route is known to have such a limit of its own.
func (h *hearing) documented() bool {
	return h.lesson.Documented == learn.Route && h.said.Name == ""
}

// like says whether two groups could be one.
func (g *group) like(o *group) bool {
	return g.kind == o.kind && g.bucket == o.bucket && g.alike == o.alike && agree(g.amount, o.amount) && agreeWindow(g.window, o.window)
}

func agree(a, b learn.Amount) bool { return !a.Known || !b.Known || a.N == b.N }

func agreeWindow(a, b time.Duration) bool { return a <= 0 || b <= 0 || a == b }

// fits says whether a limit that was said may be this one.
func (g *group) fits(said *learn.Limit) bool {
	return agree(g.amount, said.Limit) && agreeWindow(g.window, said.Window)
}

// groupOf is the group of a limit that a route has shown.
func (m *Routes) groupOf(r *route, h *hearing) *group {
	said := h.said
	base := alike{
		host: r.place.host.name, name: bounded(said.Name), unit: learn.Unit(bounded(string(said.Unit))),
		partition: bounded(said.Partition),
	}
	if said.Scope != learn.Token && said.Scope != learn.Site { // those are of all parts
		base.part = r.place.part.name
	}
	key := named{bounded(bucketOf(h.lesson, said)), base}
	key.partition = m.partition(key)
	if key.bucket != "" {
		return m.groupNamed(r, key, h)
	}
	base = key.alike
	var best *group
	count, rank := 0, -1
	for n := range r.members {
		g := r.members[n].group
		if g.alike != base {
			continue
		}
		if g.bucket == "" {
			count++
		}
		if g.mark == h.mark {
			continue
		}
		// Of those that it can be, the one with this amount and reset.
		if fit := g.rank(h); fit > rank || fit == rank && fit >= 0 && r.members[n].seen.After(r.in(best).seen) {
			best, rank = g, fit
		}
	}
	if best != nil {
		return best
	}
	if count >= mostAlike {
		return r.latest(base)
	}
	return m.groupPlain(r, base, isOwn(h.lesson, said), h)
}

// isOwn says whether a limit is one route's. What the answer says as a whole is
// each limit's only where it is not one's; that of a refusal is about what
// refused.
func isOwn(l *learn.Lesson, said *learn.Limit) bool {
	if said.Scope != learn.None {
		return said.Scope == learn.Route
	}
	if l.Scope != learn.Route || l.Bucket != "" || l.Throttled {
		return false
	}
	for n := range l.Limits {
		if l.Limits[n].Scope == learn.Route {
			return false
		}
	}
	return true
}

// rank says how well a limit fits a group that its route is in; less than zero
// is not.
func (g *group) rank(h *hearing) int {
	if !g.fits(h.said) {
		return -1
	}
	rank := 0
	if g.amount.Known && h.said.Limit.Known {
		rank += 4
	}
	if k := g.budgets[h.budget]; k != nil && !k.reset.IsZero() && !h.said.Reset.IsZero() && k.resets(h.said.Reset, h.said.Resolution) {
		rank += 2
	}
	if g.bucket == "" {
		rank++
	}
	return rank
}

// latest is the group of those alike that a route has seen last.
func (r *route) latest(base alike) *group {
	var best *member
	for n := range r.members {
		if o := &r.members[n]; o.group.alike == base && (best == nil || o.seen.After(best.seen)) {
			best = o
		}
	}
	return best.group
}

// bucketOf is the server's name for what shares a limit. That of the whole answer
// is not each limit's where it is one's.
func bucketOf(l *learn.Lesson, said *learn.Limit) string {
	if said.Bucket != "" || l.Bucket == "" || said.Scope == learn.Site {
		return said.Bucket
	}
	for n := range l.Limits {
		if l.Limits[n].Bucket == l.Bucket {
			return ""
		}
	}
	return l.Bucket
}

// groupNamed is the group of a limit that the server names.
func (m *Routes) groupNamed(r *route, key named, h *hearing) *group {
	g := m.named[key]
	if g == nil {
		id := key.bucket + "/" + key.name
		if key.partition != "" {
			id += "/" + key.partition
		}
		if key.part != "" {
			id += " " + key.part
		}
		if key.host != "" {
			id = key.host + " " + id
		}
		g = m.newGroup(h.now, id, key.alike, h.said, key.bucket)
	}
	// What it showed without the name is the same where it looks the same: some
	// refusals leave the name out.
	for n := 0; n < len(r.members); n++ {
		if o := r.members[n].group; o != g && o.mark != h.mark && o.bucket == "" && o.alike == g.alike && o.amount.Known && o.amount == h.said.Limit && r.in(g) == nil {
			m.leave(r, n)
			n--
		}
	}
	return g
}

// partition is the key for whom a limit is, as far as it is looked at: what they
// are is opaque, and there may be one for each token.
func (m *Routes) partition(key named) string {
	own := key.partition
	if own == "" {
		return ""
	}
	key.partition, key.part = "", ""
	all := m.parts[key]
	switch {
	case slices.Contains(all, own), len(all) == 0 && len(m.parts) >= mostGroups:
		return own
	case len(all) >= mostPartitions:
		return all[len(all)-1]
	}
	m.parts[key] = append(all, own)
	return own
}

// groupPlain is the group, of those that the server does not name, that a route
// is taken into which shows a limit for the first time.
func (m *Routes) groupPlain(r *route, base alike, own bool, h *hearing) *group {
	on := m.plain[base]
	if on != nil && !own {
		if g := on.choose(r, h); g != nil {
			return g
		}
	}
	g := m.newPlain(base, h.now, h.said)
	if g.routes == 0 {
		g.private = own
		g.apart = own || h.documented()
	}
	return g
}

func (m *Routes) newPlain(base alike, now time.Time, said *learn.Limit) *group {
	id := base.name
	if base.part != "" {
		id += " " + base.part
	}
	if base.host != "" {
		id = base.host + " " + id
	}
	return m.newGroup(now, id, base, said, "")
}

// shelve puts a group where it is found.
func (m *Routes) shelve(g *group) {
	if g.part == "" {
		m.common = append(m.common, g)
	}
	if g.bucket != "" {
		m.named[named{g.bucket, g.alike}] = g
		return
	}
	on := m.plain[g.alike]
	if on == nil {
		on = &shelf{}
		m.plain[g.alike] = on
	}
	on.groups = append(on.groups, g)
}

// newGroup makes a group, or takes the last one when there are too many. One
// without a bucket has a number in its ID.
func (m *Routes) newGroup(now time.Time, id string, base alike, said *learn.Limit, bucket string) *group {
	if base.part == "" && len(m.common) >= mostGroups {
		m.sweep(now)
		if len(m.common) >= mostGroups {
			return m.common[len(m.common)-1]
		}
	}
	m.made++
	g := &group{
		number: m.made, bucket: bucket, alike: base, amount: believed(said.Limit), window: said.Window, seen: now,
		site:    said.Scope == learn.Site,
		budgets: make(map[string]*memory),
	}
	g.id = m.unique(id, bucket == "", g.number)
	g.title = g.entitle()
	m.groups[g.id] = g
	m.shelve(g)
	return g
}

// newHidden makes a limit that is not announced.
func (m *Routes) newHidden(title string) *group {
	if len(m.hidden) >= mostHidden {
		return m.hidden[len(m.hidden)-1]
	}
	m.made++
	g := &group{number: m.made, kind: Hidden, title: bound(title, longestTitle)}
	g.id = m.unique("hidden", true, g.number)
	m.groups[g.id] = g
	m.hidden = append(m.hidden, g)
	return g
}

// sweep forgets the groups that no route is in any more, and nobody has seen for
// long.
func (m *Routes) sweep(now time.Time) {
	for _, g := range slices.Clone(m.common) {
		if g.routes == 0 && now.Sub(g.seen) >= forgetful {
			m.remove(g)
		}
	}
}

func (m *Routes) remove(g *group) {
	delete(m.groups, g.id)
	if g.bucket != "" {
		delete(m.named, named{g.bucket, g.alike})
	} else if on := m.plain[g.alike]; on != nil {
		on.groups = slices.DeleteFunc(on.groups, func(o *group) bool { return o == g })
		if len(on.groups) == 0 {
			delete(m.plain, g.alike)
		}
	}
	if g.part == "" {
		m.common = slices.DeleteFunc(m.common, func(o *group) bool { return o == g })
	}
}

// forget takes a route out of limits that its answers have not shown for long,
// though they showed others of the name.
func (m *Routes) forget(now time.Time, r *route) {
	for n := 0; n < len(r.members); n++ {
		in := &r.members[n]
		g := in.group
		if g.mark == m.marks {
			in.seen, in.missed = now, time.Time{}
			continue
		}
		shown := slices.ContainsFunc(r.members, func(o member) bool {
			return o.group.mark == m.marks && o.group.alike == g.alike
		})
		if !shown {
			continue
		}
		after := forgetful
		if g.window > 0 {
			after = max(2*g.window, time.Minute)
		}
		switch {
		case in.missed.IsZero() || now.Before(in.missed):
			in.missed = now
		case now.Sub(in.missed) > after && !now.Before(g.until):
			m.leave(r, n)
			n--
		}
	}
}
