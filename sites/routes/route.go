package routes

import (
	"slices"
	"time"
)

// route is a method and a path pattern of one host, with the limits that its requests
// are under.
type route struct {
	number uint64 // of the routes of its table, from 1 on
	name   string
	method string
	place  *node
	used   uint64 // the table's tick of the last use
	class  *Class
	at     uint64 // version of the table when the class was looked at

	answered bool
	quiet    int          // responses without announcements while guessing
	guessing bool         // the limits are guessed from related routes
	guessed  []*group     // the guessed groups
	members  []membership // groups that its responses have shown
	hidden   *group
}

// membership is a route's membership in a group.
type membership struct {
	group  *group
	seen   time.Time
	missed time.Time // since when responses show only other groups of the name
	higher int       // times that more was left than one counter shows
	last   time.Time // when the request of the last such response was sent
	clash  int       // times that the reset was not that of the other routes
}

func (r *route) in(g *group) *membership {
	for n := range r.members {
		if r.members[n].group == g {
			return &r.members[n]
		}
	}
	return nil
}

// rose notes that more was left than one counter can show, and reports whether that was
// the second time.
func (in *membership) rose(sent time.Time) bool {
	if in.higher > 0 && in.last.Equal(sent) {
		return false
	}
	in.higher++
	in.last = sent
	return in.higher >= 2
}

// mostMembers bounds the groups that a route may join. The last one stands for all others.
const mostMembers = 32

// join puts a route into a group, and returns the group that it is in: the last one if
// there are too many.
func (r *route) join(g *group) *group {
	if r.in(g) != nil {
		return g
	}
	if len(r.members) >= mostMembers {
		return r.members[len(r.members)-1].group
	}
	if len(r.members) == 0 {
		r.place.host.limited++
	}
	r.members = append(r.members, membership{group: g})
	g.routes++
	return g
}

func (r *route) leave(n int) {
	r.members[n].group.routes--
	r.members = slices.Delete(r.members, n, n+1)
	if len(r.members) == 0 {
		r.place.host.limited--
	}
}

// latest returns the group with a name key that a route has shown last.
func (r *route) latest(base nameKey) *group {
	var best *membership
	for n := range r.members {
		if o := &r.members[n]; o.group.key == base && (best == nil || o.seen.After(best.seen)) {
			best = o
		}
	}
	return best.group
}

func (r *route) classOf(limits []Limit, unknown bool, version uint64) *Class {
	return &Class{Route: r.name, Template: r.template(), Unknown: unknown, Limits: limits, Version: version, entity: r.place.entity}
}

// template returns the name of a route with a star for the entity. What holds for one
// entity probably holds for all.
func (r *route) template() string {
	if r.place.entity.segment == 0 {
		return r.name
	}
	return r.method + " " + r.place.host.name + r.place.entity.shape
}

// siblings are related routes. Only groups that all of them are in count.
type siblings struct {
	groups []*group
	many   int
}

func (k *siblings) addAll(p *node) {
	for _, o := range p.routes {
		k.add(o)
	}
}

func (k *siblings) add(o *route) {
	if len(o.members) == 0 {
		return
	}
	k.many++
	if k.many == 1 {
		for n := range o.members {
			k.groups = append(k.groups, o.members[n].group)
		}
		return
	}
	k.groups = slices.DeleteFunc(k.groups, func(g *group) bool { return o.in(g) == nil })
}
