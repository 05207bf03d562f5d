package knowledge

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/routes"
)

// Refused is a request that the site has refused, with what is needed to find the scope of
// the refusal.
type Refused struct {
	// Narrowest is the scope of a refusal that names none: the request's route, or else
	// Whole. Word is its kind: "route", "backend" or "site".
	Narrowest queue.Scope
	Word      string
	Whole     queue.Scope // the site, or the backend that the request was sent to
	// Token is the scope of the request's token, or of requests without a token at a site
	// with tokens. Pooled: the site has tokens. Signed: the request was sent with one.
	Token          queue.Scope
	Pooled, Signed bool
	Refusals       int    // of the request, before this one
	Passed         uint64 // Passed of the blame for the previous refusal
}

// blame is the scope that a refusal applies to.
type blame struct {
	At      queue.Scope
	Word    string // its kind, for the metrics: "site", "backend", "route" or "token"
	Passed  uint64 // answers of the site that were no refusals, so far
	Changed bool   // the queue must plan the site's waiting requests again
}

// Blame finds the scope of a refusal, and learns from it about limits that the site does
// not announce.
func (s *Site) Blame(a *Answer, learned *routes.Learned, r *Refused, to updater) blame {
	for i := range learned.Announcements {
		if one := &learned.Announcements[i]; one.Refused {
			b := blame{At: queue.Scope{Limit: learnedPrefix + one.ID, Key: a.whose(one)}, Word: "route", Passed: r.Passed}
			switch {
			case one.Site:
				b.Word = "site"
			case r.Signed:
				b.Word = "token"
			}
			return b
		}
	}
	b := blame{At: r.Narrowest, Word: r.Word}
	together := r.Signed && s.sharedRefusal(a.At, a.Class.Route, a.Budget)
	switch {
	case a.Lesson.Scope == learn.Site, a.Lesson.Documented == learn.Site, together:
		b.At, b.Word = r.Whole, "site"
	case r.Pooled && r.Word == "site":
		b.At, b.Word = r.Token, "token"
	}
	// If other requests succeed while this one is refused repeatedly, the rate is not the
	// cause. A single refusal does not prove a limit either.
	b.Passed = s.passes()
	odd := r.Refusals > 0 && (b.Passed > r.Passed || !hides(a.Class))
	if a.Lesson.Permanent || odd {
		return b
	}
	id, changed := s.unexplained(a.At, a.Class, a.Sent)
	if b.Changed = changed; id != "" {
		l := s.Limit(&routes.Limit{ID: id, Title: "what the site does not say", Kind: routes.Hidden}, a.Reserve)
		l.Key = a.Budget
		now, sent, retryAt := a.At, a.Sent, a.Lesson.RetryAt
		to.Update([]queue.Update{{Limit: l, Apply: func(_ time.Time, m limit.Meter) {
			if p, ok := m.(*ledger.HiddenRate); ok {
				p.Refused(now, sent, retryAt)
			}
		}}})
	}
	return b
}

// hides tells whether a class is under a limit that its site does not announce.
func hides(c *routes.Class) bool {
	return slices.ContainsFunc(c.Limits, func(l routes.Limit) bool { return l.Kind == routes.Hidden })
}
