package proxy

import (
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/tokens"
)

const (
	// learnedPrefix tells limits that were learned from those that were written.
	learnedPrefix = "learned "
	// firstPrefix is of the limit that lets the first request of a route go alone.
	firstPrefix = "first "
)

// needs are the limits that a request takes from: one list for each backend or
// token. Many requests may have the same lists, which is what shared says.
func (p *plan) needs(x *exchange) (all [][]queue.Limit, shared bool) {
	if p == nil {
		return nil, true
	}
	covers, few := p.covers(x)
	like := likeness{covers: covers, set: x.turn.set, estimate: x.estimate}
	if x.class != nil && len(x.class.Limits) > 0 {
		like.learned = &x.class.Limits[0]
		if x.turn.set == nil {
			like.own = x.own
		}
	}
	if few {
		all = p.lists.of(like)
	}
	if all == nil {
		all = p.alternatives(x)
		shared = few && p.lists.keep(like, all)
	} else {
		shared = true
	}
	if p.robots && x.prior != nil {
		all, shared = p.with(all, *x.prior), false
	}
	if x.class != nil && x.class.Unknown && x.client != crawler && !x.asking && !x.lent {
		all, shared = p.with(all, first(x.book, x.class)), false
	}
	return all, shared
}

// alternatives are the limits that cover a request, at each backend and with each
// token if there are any.
func (p *plan) alternatives(x *exchange) [][]queue.Limit {
	list := make([]queue.Limit, 0, len(p.limits)+4)
	var each []int    // those that each token has for itself
	var only []string // of each, what planned.only says; what was learned holds for all
	for i := range p.limits {
		if one := &p.limits[i]; one.rule.Covers(x.method, x.path) {
			if one.token {
				each = append(each, len(list))
			}
			list, only = append(list, one.need), append(only, one.only)
			if one.need.Of == queue.Bytes {
				list[len(list)-1].N = x.expects(list[len(list)-1:])
			}
		}
	}
	if x.class != nil {
		for i := range x.class.Limits {
			l := &x.class.Limits[i]
			if !l.Site {
				each = append(each, len(list))
			}
			list = append(list, p.learned(x.book, l))
		}
	}
	switch {
	case x.turn.set != nil:
		return p.forTokens(x, list, each)
	case len(p.backends) == 0:
		for _, i := range each {
			list[i].Key = x.own
		}
		return [][]queue.Limit{list}
	}
	all := make([][]queue.Limit, len(p.backends))
	for i := range p.backends {
		b := &p.backends[i]
		own := make([]queue.Limit, 0, len(list)+1)
		for j := range list {
			if j >= len(only) || only[j] == b.only {
				list[j].Key = b.name
				own = append(own, list[j])
			}
		}
		all[i] = append(own, b.slot)
	}
	return all
}

// expects is how many bytes of a limit a request waits for: what its client says, or
// what its site usually answers, or what its connection has to pay for ahead, but only
// a part of the whole then.
func (x *exchange) expects(of []queue.Limit) int64 {
	if x.declared > 0 {
		return x.declared
	}
	return max(min(max(x.estimate, queue.BufferOf(of)), of[0].Spec.Amount/estimatePart), 1)
}

// forTokens are the limits with each token that may be used, and at the end those
// without any, where the pool allows that.
func (p *plan) forTokens(x *exchange, list []queue.Limit, each []int) [][]queue.Limit {
	refuse := p.tokens.Exhausted == "refuse"
	usable := x.turn.set.Tokens()
	all := make([][]queue.Limit, 0, len(usable)+1)
	with := func(budget string) []queue.Limit {
		own := append(make([]queue.Limit, 0, len(list)+1), list...)
		for _, i := range each {
			own[i].Key, own[i].Refuse = budget, refuse
		}
		return own
	}
	for _, t := range usable {
		all = append(all, append(with(t.Budget()), queue.Limit{Name: slotOfToken, Title: "token", Key: t.Key(), Refuse: refuse}))
	}
	switch {
	case p.tokens.Anonymous:
		all = append(all, append(with(""), queue.Limit{Name: slotOfToken, Title: "no token", Refuse: refuse}))
	case len(usable) == 0:
		// Nothing may go, until there is a token again.
		all = append(all, append(with(""), queue.Limit{Name: slotOfToken, Title: titleOfNoToken, Make: noToken, N: 1, Refuse: refuse}))
	}
	return all
}

// learned is a limit that a site has taught.
func (p *plan) learned(b *book, l *ledger.Limit) queue.Limit {
	one := queue.Limit{Name: learnedPrefix + l.ID, Title: b.title(l.ID, l.Title), N: 1, Keep: b.keep}
	switch l.Kind {
	case ledger.Hidden:
		id := l.ID
		one.Make = func() limit.Meter { return ledger.NewPace(b.hidden(id)) }
	default:
		reserve := ledger.Reserve{Units: p.tokens.Reserve.Units, Percent: p.tokens.Reserve.Percent}
		unit, part := l.Unit, l.Part != ""
		one.Make = func() limit.Meter { return ledger.New(ledger.Options{Reserve: reserve, Unit: unit, Part: part}) }
	}
	return one
}

// first lets one request of a route go alone whose limits nobody knows: of the whole
// site, where nothing is known at all.
func first(b *book, c *ledger.Class) queue.Limit {
	key := c.Route
	if len(c.Limits) == 0 && b.fresh() {
		key = ""
	}
	return queue.Limit{
		Name: firstPrefix, Title: "the first request of a route goes alone", Key: key, N: 1,
		Make: func() limit.Meter { return ledger.NewFirst() },
	}
}

// with adds a limit to each list.
func (p *plan) with(lists [][]queue.Limit, one queue.Limit) [][]queue.Limit {
	all := make([][]queue.Limit, len(lists))
	for i, list := range lists {
		l := one
		if len(p.backends) > 0 {
			l.Key = strings.TrimSpace(p.backends[i].name + " " + l.Key)
		}
		all[i] = append(list[:len(list):len(list)], l)
	}
	return all
}

// place finds what a request is under: what is known of its route, and the tokens
// that it may go with.
func (s *Server) place(x *exchange) {
	p := x.turn.plan
	x.class, x.turn.set = nil, nil
	if p == nil {
		return
	}
	if p.learns && x.book == nil {
		x.book = s.books.of(x.site, !x.asking || s.memory.has(kindOfRoutes, x.site))
	}
	if p.learns && x.book != nil {
		host := ""
		if x.grouped() {
			host = x.target.Host
		}
		apart := learn.Apart(learn.Request{Method: x.method, Host: x.target.Host, Path: x.path, Dialect: p.dialect})
		x.class, x.seen = x.book.class(x.method, host, x.path, apart)
	}
	if p.pool != nil && x.client != crawler { // nobody needs a token for robots.txt
		x.turn.set = p.pool.Set()
	}
}

// token is what the request's permit sends it with, nil if that is nothing.
func (x *exchange) token() *tokens.Token {
	t := &x.turn
	if t.set == nil || t.permit == nil {
		return nil
	}
	if usable, i := t.set.Tokens(), t.permit.Choice(); i < len(usable) {
		return usable[i]
	}
	return nil
}

// budget is whose ledgers the request takes from: its token's, its backend's, its
// client's own, or nobody's.
func (x *exchange) budget() string {
	if t := x.token(); t != nil {
		return t.Budget()
	}
	if b := x.backend(); b != nil {
		return b.name
	}
	if x.turn.set == nil {
		return x.own
	}
	return ""
}

// ownPrefix begins the names of the budgets of clients' own credentials.
const ownPrefix = "own "

// fingerprints is this process's alone, so what is made by it cannot be looked up.
var fingerprints = maphash.MakeSeed()

// ownBudget tells the credentials of clients apart, where no pool replaces them: a
// site counts for each.
func ownBudget(r *http.Request) string {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return ""
	}
	return ownPrefix + strconv.FormatUint(maphash.String(fingerprints, values[0]), 36)
}

// nobody is a meter that lets nothing go.
type nobody struct{ limit.Meter }

func noToken() limit.Meter {
	m, err := limit.New(limit.Spec{As: limit.Concurrency, Amount: 1})
	if err != nil {
		panic(err) // one is an amount
	}
	return nobody{m}
}

// When is not known: when there is a token, the needs are others.
func (nobody) When(time.Time, int64) (time.Time, bool) { return limit.Unknown, true }

// Left is nothing.
func (nobody) Left(time.Time) int64 { return 0 }
