package sites

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/sites/routes"
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
	Own            bool      // the client has sent a credential of its own
	Refusals       int       // of the request, before this one
	Since          time.Time // the previous of these
	Odd            bool      // see blame: of the previous of these
}

// blame is the scope that a refusal applies to.
type blame struct {
	At      queue.Scope
	Word    string    // its kind, for the metrics: "site", "backend", "route" or "token"
	Changed bool      // the queue must plan the site's waiting requests again
	Odd     bool      // others succeed while this request is refused again and again: the rate is not the cause
	Alone   bool      // the refused request pauses alone
	Until   time.Time // until when the limit lets nothing go, as far as it is known; zero: it is not
}

// Blame finds the scope of a refusal, and learns from it about limits that the site does
// not announce.
func (s *Site) Blame(a *Answer, learned *routes.Learned, r *Refused, to updater) blame {
	for i := range learned.Announcements {
		if announcement := &learned.Announcements[i]; announcement.Refused {
			b := blame{At: queue.Scope{Limit: learnedPrefix + announcement.ID, Key: a.whose(announcement.Site)}, Word: "route", Until: announcement.Until}
			switch {
			case announcement.Site:
				b.Word = "site"
			case r.Signed:
				b.Word = "token"
			}
			return b
		}
	}
	b := blame{At: r.Narrowest, Word: r.Word}
	all := a.Lesson.Scope == learn.Site || a.Lesson.Documented == learn.Site || a.Lesson.Overload
	switch {
	case all:
		b.At, b.Word = r.Whole, "site"
	case r.Pooled && r.Word == "site":
		b.At, b.Word = r.Token, "token"
	}
	b.Odd = r.Odd || r.Refusals >= oddRefusals && s.acceptedAfter(r.Since, a.Class)
	if b.Alone = b.Odd; a.Lesson.Overload || b.Odd {
		return b
	}
	h := s.hidden(a, r.Signed && a.Lesson.Scope == learn.Site, all || a.Lesson.Block || a.Lesson.Concurrency)
	b.Changed = h.changed
	l := s.Limit(&h.limit, a.Reserve)
	l.Key = a.whose(h.limit.Site)
	switch at := (queue.Scope{Limit: l.Name, Key: l.Key}); {
	case h.alone:
		b.At, b.Word = at, "route" // until others show that it is the site's
	case h.near && r.Signed:
		b.At, b.Word = r.Whole, "site"
	case r.Own && !h.limit.Site && b.Word == "site" && !all:
		b.At, b.Word = at, "token"
	}
	refusal := ledger.Refusal{Sent: a.Sent, Level: a.Level, Pooled: r.Pooled, RetryAt: a.Lesson.RetryAt, Concurrency: a.Lesson.Concurrency, Block: a.Lesson.Block, Failure: a.Unavailable && !a.Closed, Again: a.Closed || h.again}
	by := 0
	to.Update([]queue.Update{{Limit: l, Apply: func(now time.Time, m limit.Meter) {
		if p, ok := m.(*ledger.HiddenRate); ok {
			by = p.Shared(refusal.Sent)
			b.Until, b.Alone = p.Refused(now, refusal)
		}
	}}})
	if r.Pooled && by != 0 {
		s.mu.Lock()
		s.answers.weigh(a.Budget, by)
		s.mu.Unlock()
	}
	return b
}

// oddRefusals is the number of refusals of one request that may be due to a rate although others
// succeed between them.
const oddRefusals = 3
