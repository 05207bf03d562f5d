package proxy

import (
	"net/http"
	"slices"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
)

// study is what an answer has taught.
type study struct {
	refusal hint
	at      queue.Scope // what the refusal is about
	word    string      // the kind of it, for the metrics
}

// study reads what an answer says of limits, and tells all who keep them.
// The answer is to be used in place of the one that was given: see headOf.
func (s *Server) study(x *exchange, r *http.Request, resp *http.Response) *http.Response {
	t := &x.turn
	t.study = study{}
	if resp == nil {
		return nil
	}
	if t.plan == nil || !t.plan.learns || x.class == nil {
		t.study.plain(x, resp)
		return resp
	}
	request := learn.Request{Method: x.method, Host: x.target.Host, Path: x.path, Dialect: t.plan.dialect}
	var head []byte
	if learn.WantsBody(resp.StatusCode, request) {
		resp, head = headOf(resp)
	}
	lesson := learn.Read(resp.StatusCode, resp.Header, head, request, x.answered)
	x.unnamed(r, &lesson)
	s.note(x, resp, &lesson)
	return resp
}

// plain is for a site that nothing is learned from: Retry-After is all that counts.
func (st *study) plain(x *exchange, resp *http.Response) {
	if st.refusal = plainHint(resp.StatusCode, resp.Header, x.answered); st.refusal.is {
		st.at, st.word = x.turn.plan.scope(x), x.turn.plan.scopeWord(x)
	}
}

// note keeps a lesson: in the book of the site's routes, in the ledgers of the
// request's budget, and for the verdict.
func (s *Server) note(x *exchange, resp *http.Response, lesson *learn.Lesson) {
	t, now := &x.turn, x.answered
	budget, sent := x.budget(), x.sent
	if len(lesson.Limits) > 0 || lesson.Throttled {
		sent = t.permit.Granted() // as the ledgers know it
	}
	learned := x.book.learn(now, x.class, budget, sent, lesson)
	changed := learned.Changed
	var news []ledger.News
	if len(learned.Told) > 0 {
		news = make([]ledger.News, len(learned.Told))
		t.permit.Teach(s.teachings(x, &learned, sent, news))
		for i := range learned.Told {
			more, twins := x.book.heard(now, x.class, x.whose(&learned.Told[i]), learned.Told[i].ID, sent, news[i])
			changed = changed || more
			if twins != [2]string{} {
				s.unite(x, twins)
			}
			if told := &learned.Told[i]; t.token != nil && !told.Site && !told.Refused && told.Said.Remaining.Known && told.Said.Remaining.N < 1 {
				t.plan.pool.Spend(now, t.token, x.routeOfSite(told.Title), told.Said.Reset, "nothing is left")
			}
		}
	}
	if lesson.Throttled {
		t.study.refusal = hintOf(lesson, resp.Header, now)
		changed = s.blame(x, lesson, &learned, budget, sent) || changed
	}
	if changed {
		s.gate.Replan(x.site, x.book.version())
	}
}

// teachings are what the ledgers hear of an answer.
func (s *Server) teachings(x *exchange, learned *ledger.Learned, sent time.Time, news []ledger.News) []queue.Teaching {
	p, now := x.turn.plan, x.answered
	list := make([]queue.Teaching, len(learned.Told))
	for i := range learned.Told {
		told := &learned.Told[i]
		one := p.learned(x.book, &ledger.Limit{ID: told.ID, Title: told.Title, Part: told.Part, Unit: told.Said.Unit})
		one.Key = x.whose(told)
		took := int64(0)
		for j := range x.class.Limits {
			if x.class.Limits[j].ID == told.ID {
				took = 1
			}
		}
		list[i] = queue.Teaching{Limit: one, Tell: func(_ time.Time, m limit.Meter) {
			if l, ok := m.(*ledger.Ledger); ok {
				news[i] = l.Hear(now, ledger.Answer{Sent: sent, N: took, Said: told.Said, Refused: told.Refused, RetryAt: told.RetryAt})
			}
		}}
	}
	return list
}

// purse is whose ledger of a limit an answer is about.
func (x *exchange) whose(told *ledger.Told) string {
	if told.Site && x.backend() == nil {
		return ""
	}
	return x.budget()
}

// unpaid is how long a token rests that a bill keeps from being used.
const unpaid = time.Hour

// hintOf is what a refusal's lesson says of the wait.
func hintOf(l *learn.Lesson, h http.Header, now time.Time) hint {
	r := hint{is: !l.Lock, lock: l.Lock, said: !l.RetryAt.IsZero()}
	switch {
	case r.said:
		r.wait = max(l.RetryAt.Sub(now), 0)
	case l.Permanent:
		r.said, r.wait = true, unpaid
	}
	r.why = whyRefused(r.said, h)
	return r
}

// blame finds what a refusal is about, and what follows. It tells whether limits
// have changed by it.
func (s *Server) blame(x *exchange, lesson *learn.Lesson, learned *ledger.Learned, budget string, sent time.Time) (changed bool) {
	t, now := &x.turn, x.answered
	r := &t.study.refusal
	if r.lock {
		return false
	}
	r.final = lesson.Permanent && (t.token == nil || len(t.set.Tokens()) < 2)
	for i := range learned.Told {
		if told := &learned.Told[i]; told.Refused {
			t.study.at, t.study.word = queue.Scope{Limit: learnedPrefix + told.ID, Key: x.whose(told)}, "route"
			switch {
			case told.Site:
				t.study.word = "site"
			case t.token != nil:
				t.study.word = "token"
			}
			return false
		}
	}
	t.study.at, t.study.word = t.plan.scope(x), t.plan.scopeWord(x)
	together := t.token != nil && x.book.shared(now, x.class.Route, budget)
	switch {
	case lesson.Scope == learn.Site, lesson.Documented == learn.Site, together:
		t.study.at, t.study.word = t.plan.party(x), "site"
	case t.token != nil && t.study.word == "site":
		t.study.at, t.study.word = scopeOfToken(t.token), "token"
	case t.set != nil && t.study.word == "site":
		t.study.at, t.study.word = queue.Scope{Limit: slotOfToken}, "token" // that of none
	}
	// Where others pass and the same request is refused again and again, it is not that
	// there are too many. Nor does one alone show a limit.
	passed := x.book.passes()
	odd := t.refusals > 0 && (passed > t.passed || !hides(x.class))
	t.passed = passed
	if lesson.Permanent || odd {
		return false
	}
	id, changed := x.book.unexplained(now, x.class, sent)
	if id != "" {
		one := t.plan.learned(x.book, &ledger.Limit{ID: id, Title: "what the site does not say", Kind: ledger.Hidden})
		one.Key = budget
		t.permit.Teach([]queue.Teaching{{Limit: one, Tell: func(_ time.Time, m limit.Meter) {
			if p, ok := m.(*ledger.Pace); ok {
				p.Refused(now, sent, lesson.RetryAt)
			}
		}}})
	}
	return changed
}

// hides tells whether a class is under a limit that its site does not show.
func hides(c *ledger.Class) bool {
	return slices.ContainsFunc(c.Limits, func(l ledger.Limit) bool { return l.Kind == ledger.Hidden })
}

// unite makes one account of two tokens whose counts move together.
func (s *Server) unite(x *exchange, twins [2]string) {
	pool, set := x.turn.plan.pool, x.turn.set
	if pool == nil || set == nil {
		return
	}
	a, b := -1, -1
	list := set.Tokens()
	for i, t := range list {
		switch t.Budget() {
		case twins[0]:
			a = i
		case twins[1]:
			b = i
		}
	}
	if a < 0 || b < 0 || !pool.Unite(time.Now(), list[a], list[b]) {
		return
	}
	s.log.Warnf("the tokens %s and %s of %s are of one account: they share its limits from now on", list[a].Label(), list[b].Label(), pool.Name())
	s.replans.ring()
}
