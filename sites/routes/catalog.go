package routes

import (
	"slices"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// catalog has the limits of a site, with the indexes to find them. It is not safe for
// concurrent use.
type catalog struct {
	groups     map[string]*group         // :: ID → a limit
	announced  map[bucketKey]*candidates // one for each limit with a bucket
	partitions map[bucketKey][]string    // :: a limit without its partition → its partitions
	common     []*group                  // announced limits of no entity; the last also stands for those beyond the maximum
	hidden     []*group                  // limits of Kind Hidden
	hiddenOf   map[string]*group         // :: template → the hidden limit of its routes; "": that of the whole site
	made       uint64                    // groups so far
	marks      uint64                    // number of responses that announced a limit
	numbered   bool                      // all IDs have a number, so that none is one from before Table.Forget
}

// candidates are the groups with one key: a response that announces such a limit
// belongs to one of them.
type candidates struct {
	groups []*group
	splits int
}

// choose returns the group that a route joins when it first announces a limit, or nil if
// none fits.
func (s *candidates) choose(r *route, h *observation) (best *group) {
	sure := no
	for _, g := range s.groups {
		v := no
		if r.in(g) == nil {
			v = g.accepts(h)
		}
		guessed := slices.Contains(r.guessed, g)
		if v > sure || v == sure && v != no && (guessed || g.routes > best.routes && !slices.Contains(r.guessed, best)) {
			best, sure = g, v
		}
	}
	return best
}

// groupOf returns the group of a limit that a route has announced, and makes one if none
// fits.
func (c *catalog) groupOf(r *route, h *observation) *group {
	said := h.said
	base := nameKey{
		host: r.place.host.name, name: bounded(said.Name), unit: learn.Unit(bounded(string(said.Unit))),
		partition: bounded(said.Partition),
	}
	if said.Scope != learn.Token && said.Scope != learn.Site { // these scopes hold for all entities
		base.entity = r.place.entity.name
	}
	key := bucketKey{bounded(bucketOf(h.lesson, said)), base}
	key.limit.partition = c.partition(key)
	if key.bucket != "" {
		return c.groupNamed(r, key, h)
	}
	base = key.limit
	var best, latest *membership
	count, rank := 0, -1
	for n := range r.members {
		in := &r.members[n]
		g := in.group
		if g.key != base {
			continue
		}
		if g.bucket == "" {
			count++
		}
		if latest == nil || in.seen.After(latest.seen) {
			latest = in
		}
		// Of the groups that fit, the one with this amount and reset.
		if fit := g.rank(h); g.mark != h.mark && (fit > rank || fit == rank && fit >= 0 && in.seen.After(best.seen)) {
			best, rank = in, fit
		}
	}
	switch {
	case best != nil:
		return best.group
	case count >= mostAlike:
		return latest.group
	}
	on, partitioned := c.announced[key], isOwn(h.lesson, said)
	if on != nil && !partitioned {
		if g := on.choose(r, h); g != nil {
			return g
		}
	}
	g := c.newGroup(h.now, key, said)
	if g.routes == 0 {
		g.private, g.unshared = partitioned, partitioned || h.documented()
	}
	return g
}

// isOwn reports whether a limit is for one route alone. The scope of a response holds
// for its limits if none of them has a scope of its own; the scope of a refusal is about
// what refused.
func isOwn(l *learn.Lesson, said *learn.Limit) bool {
	if said.Scope != learn.None {
		return said.Scope == learn.Route
	}
	return l.Scope == learn.Route && l.Bucket == "" && !l.Throttled &&
		!slices.ContainsFunc(l.Limits, func(other learn.Limit) bool { return other.Scope == learn.Route })
}

// bucketOf returns the server's name for the requests that share a limit. The name of
// the whole response holds for a limit if no limit of the response bears it.
func bucketOf(l *learn.Lesson, said *learn.Limit) string {
	if said.Bucket != "" || l.Bucket == "" || said.Scope == learn.Site {
		return said.Bucket
	}
	if slices.ContainsFunc(l.Limits, func(other learn.Limit) bool { return other.Bucket == l.Bucket }) {
		return ""
	}
	return l.Bucket
}

// groupNamed returns the group of a limit that the server names.
func (c *catalog) groupNamed(r *route, key bucketKey, h *observation) *group {
	var g *group
	if on := c.announced[key]; on != nil {
		g = on.groups[0]
	} else {
		g = c.newGroup(h.now, key, h.said)
	}
	// A group without a bucket that looks the same is the same limit: some refusals
	// leave the bucket out.
	for n := 0; n < len(r.members); n++ {
		if o := r.members[n].group; o != g && o.mark != h.mark && o.bucket == "" && o.key == g.key && o.amount.Known && o.amount == h.said.Limit && r.in(g) == nil {
			r.leave(n)
			n--
		}
	}
	return g
}

// partition returns the partition of a key, as far as partitions are distinguished: servers
// may have one per token.
func (c *catalog) partition(key bucketKey) string {
	partition := key.limit.partition
	if partition == "" {
		return ""
	}
	key.limit.partition, key.limit.entity = "", ""
	all := c.partitions[key]
	switch {
	case slices.Contains(all, partition), len(all) == 0 && len(c.partitions) >= mostGroups:
		return partition
	case len(all) >= mostPartitions:
		return all[len(all)-1]
	}
	c.partitions[key] = append(all, partition)
	return partition
}

// add makes a group known by its keys.
func (c *catalog) add(g *group) {
	if g.key.entity == "" {
		c.common = append(c.common, g)
	}
	key := bucketKey{g.bucket, g.key}
	on := c.announced[key]
	if on == nil {
		on = &candidates{}
		c.announced[key] = on
	}
	on.groups = append(on.groups, g)
}

// newGroup makes a group, or returns the last one when there are too many, also without those that have no routes
// and that no response has shown for an hour. The ID of a group without a bucket has a number.
func (c *catalog) newGroup(now time.Time, key bucketKey, said *learn.Limit) *group {
	base := key.limit
	if base.entity == "" && len(c.common) >= mostGroups {
		for _, g := range slices.Clone(c.common) {
			if g.routes == 0 && now.Sub(g.seen) >= forgetful {
				c.remove(g)
			}
		}
		if len(c.common) >= mostGroups {
			return c.common[len(c.common)-1]
		}
	}
	id := base.name
	if key.bucket != "" {
		id = key.bucket + "/" + id
		if base.partition != "" {
			id += "/" + base.partition
		}
	}
	if base.entity != "" {
		id += " " + base.entity
	}
	if base.host != "" {
		id = base.host + " " + id
	}
	c.made++
	g := &group{
		number: c.made, bucket: key.bucket, key: base, amount: believed(said.Limit), window: said.Window, seen: now,
		site:    said.Scope == learn.Site,
		budgets: make(map[string]*record),
	}
	g.id = c.unique(id, key.bucket == "", g.number)
	g.title = g.entitle()
	c.groups[g.id] = g
	c.add(g)
	return g
}

// unique returns an ID that no other limit has.
func (c *catalog) unique(id string, numbered bool, number uint64) string {
	id = bounded(id)
	if !numbered && !c.numbered && c.groups[id] == nil {
		return id
	}
	for {
		end := "#" + strconv.FormatUint(number, 10)
		name := id[:min(len(id), longestID-len(end))] + end
		if c.groups[name] == nil {
			return name
		}
		id += "#"
		number++
	}
}

// split moves a route from a group to a new one. No route that has not answered is taken
// for a member of the new group.
func (c *catalog) split(r *route, g *group, h *observation) *group {
	if on := c.announced[bucketKey{limit: g.key}]; on != nil {
		on.splits++
	}
	to := c.newGroup(h.now, bucketKey{limit: g.key}, h.said)
	to.unshared = to.unshared || to.routes == 0 && g.unshared
	r.leave(slices.IndexFunc(r.members, func(in membership) bool { return in.group == g }))
	return r.join(to)
}

// ofEntities returns the number of announced limits that entities have for themselves.
func (c *catalog) ofEntities() int { return len(c.groups) - len(c.hidden) - len(c.common) }

func (c *catalog) remove(g *group) {
	delete(c.groups, g.id)
	key := bucketKey{g.bucket, g.key}
	if on := c.announced[key]; on != nil {
		on.groups = slices.DeleteFunc(on.groups, func(o *group) bool { return o == g })
		if len(on.groups) == 0 {
			delete(c.announced, key)
		}
	}
	if g.key.entity == "" {
		c.common = slices.DeleteFunc(c.common, func(o *group) bool { return o == g })
	}
}

// forget takes a route out of groups that its responses have not shown for long, though
// they showed others of the same name: a request of the budget that was sent after the reset, or
// all requests for some windows.
func (c *catalog) forget(now, sent time.Time, budget string, r *route) {
	for n := 0; n < len(r.members); n++ {
		in := &r.members[n]
		g := in.group
		if g.mark == c.marks {
			in.seen, in.missed = now, time.Time{}
			continue
		}
		shown := slices.ContainsFunc(r.members, func(o membership) bool {
			return o.group.mark == c.marks && o.group.key == g.key
		})
		if !shown {
			continue
		}
		after := forgetful
		if g.window > 0 {
			after = max(2*g.window, time.Minute)
		}
		if in.missed.IsZero() || now.Before(in.missed) {
			in.missed = now
		}
		_, shown = g.budgets[budget]
		if shown && !g.until.IsZero() && sent.After(g.until) || now.Sub(in.missed) > after && !now.Before(g.until) {
			r.leave(n)
			n--
		}
	}
}
