package routes

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit/learn"
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
	return lists.Find(r.members, func(in *membership) bool { return in.group == g })
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

func (r *route) classOf(limits []Limit, unknown bool) *Class {
	return &Class{Route: r.name, Template: r.template(), Unknown: unknown, Limits: limits, entity: r.place.entity}
}

// template returns the name of a route with a star for the entity. What holds for one
// entity probably holds for all.
func (r *route) template() string {
	if r.place.entity.segment == 0 {
		return r.name
	}
	return r.method + " " + r.place.host.name + r.place.entity.shape
}

// sharedGroups returns the groups that all of some routes are in, but for routes that are in none.
func sharedGroups(routes []*route) (groups []*group) {
	first := true
	for _, o := range routes {
		switch {
		case len(o.members) == 0:
		case first:
			groups, first = lists.Map(o.members, func(in membership) *group { return in.group }), false
		default:
			groups = slices.DeleteFunc(groups, func(g *group) bool { return o.in(g) == nil })
		}
	}
	return groups
}

// Limit is a limit of a class of requests. It is immutable.
type Limit struct {
	ID     string // unique in its site
	Title  string // for operators: "75 per 15m"
	Entity string // the entity that has the limit for itself: "channels/7"; "": none
	Kind   Kind
	Unit   learn.Unit
	Site   bool // the site counts all requests together, whatever their credentials
}

// limit returns the limit of the group.
func (g *group) limit() Limit {
	return Limit{ID: g.id, Title: g.title, Entity: g.key.entity, Kind: g.kind, Unit: g.key.unit, Site: g.site}
}

// Class has the limits of the requests of one route. It is immutable: a route whose limits change
// gets another class.
type Class struct {
	Route    string // "GET /2/tweets/*/retweeted_by"; with its host where a site has several
	Template string // the route with a * for its entity
	Unknown  bool   // no response yet: one request goes alone (ledger.NewUnknownRoute)
	Limits   []Limit

	entity entity
}

// Announcement is a limit in a response, with the table's limit that it belongs to.
type Announcement struct {
	ID      string
	Title   string
	Entity  string
	Site    bool // see Limit
	Limit   learn.Limit
	Refused bool
	RetryAt time.Time
	Until   time.Time // until when the limit lets nothing go, by its ledger; zero: that is not known yet
}

// Learned is the result of one response.
type Learned struct {
	Announcements []Announcement
	Changed       bool // the limits of some routes have changed, and Version has grown
}

// Bounds of stored names and titles, in bytes.
const (
	longestTitle = 64
	longestID    = 128
)

// entitle returns the title of a limit as it is shown: "75 per 15m", "5000 of core".
func (g *group) entitle() string {
	unit := cmp.Or(string(g.key.unit), "requests")
	what := cmp.Or(g.bucket, g.key.name, unit)
	if !g.amount.Known {
		if g.key.entity != "" {
			what = g.key.entity + " " + what
		}
		return bound(what, longestTitle)
	}
	title := strconv.FormatFloat(math.Round(g.amount.N*1000)/1000, 'f', -1, 64)
	if math.Abs(g.amount.N) >= 1e15 {
		title = strconv.FormatFloat(g.amount.N, 'g', 3, 64)
	}
	if g.key.unit != learn.Requests && g.key.unit != learn.Percent {
		title += " " + string(g.key.unit)
	}
	if g.key.entity != "" { // before the end, which may be cut off
		title += " in " + g.key.entity
	}
	switch {
	case g.window > 0:
		title += " per " + windowOf(g.window)
	case what != unit:
		title += " of " + what
	case g.key.unit == learn.Requests:
		title += " requests"
	}
	return bound(title, longestTitle)
}

// windowOf writes a window in the largest unit that it is a whole number of.
func windowOf(d time.Duration) string {
	for _, one := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= one.unit && d%one.unit == 0 {
			return strconv.FormatInt(int64(d/one.unit), 10) + one.name
		}
	}
	return d.String()
}

// believed returns an amount if it is a finite number.
func believed(a learn.Amount) learn.Amount {
	if math.IsNaN(a.N) || math.IsInf(a.N, 0) {
		return learn.Amount{}
	}
	return a
}

// bound makes printable ASCII of a text, of at most so many bytes.
func bound(text string, most int) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text[:min(len(text), most)])
}

// bounded returns the stored form of a server's name: unchanged if it is short and printable,
// else cut, with a hash of all of it.
func bounded(name string) string {
	if bound(name, longestID) == name {
		return name
	}
	sum := fnv.New64a()
	sum.Write([]byte(name))
	return bound(name, longestID/2) + "~" + strconv.FormatUint(sum.Sum64(), 16)
}
