package sites

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/sites/routes"
)

// LearnFrom applies an answer to the routes of the site, and to the ledgers of announced
// limits. If the limits of routes change, the queue must plan the site's waiting requests
// again.
func (s *Site) LearnFrom(a *Answer, to updater) routes.Learned {
	all := s.learn(a)
	surprises := make([]ledger.Surprise, len(all.Announcements))
	var flying int64
	list := append(s.unannounced(a, all.Announcements, &flying), s.updates(a, all.Announcements, surprises, &flying)...)
	if len(list) == 0 {
		return all
	}
	to.Update(list)
	for i := range all.Announcements {
		announcement := &all.Announcements[i]
		if announcement.Refused && !surprises[i].Until.IsZero() {
			announcement.Until = surprises[i].Until
		}
		s.mu.Lock()
		all.Changed = s.routes.Explain(a.At, a.Class, a.whose(announcement.Site), announcement.ID, a.Sent, surprises[i]) || all.Changed
		s.mu.Unlock()
	}
	return all
}

// Unavailable makes an answer that says nothing but that the site is unavailable a refusal of
// the site, if others succeed, and reports whether it did.
func (s *Site) Unavailable(a *Answer) bool {
	if !a.Failed || a.Unavailable && a.Lesson.Throttled {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := of(&s.answers.origins, a.Origin)
	if !a.Unavailable {
		u.failed(a.At)
		return false
	}
	if !u.refuses(a.At, a.Sent) {
		return false
	}
	first := a.Closed && u.closes(a.At) // that says nothing of a rate: see unavailable
	if first {
		s.answers.anew = a.At
	}
	a.Lesson.Throttled, a.Lesson.Scope, a.Lesson.Overload = true, learn.Site, a.Lesson.Overload || first
	return true
}

// updates returns the updates of ledgers by an answer. They set the surprises. The meters get the gate's
// time, and not the arrival of the answer: others may have used them since, and time that goes back is
// taken for a clock that was set.
func (s *Site) updates(a *Answer, all []routes.Announcement, surprises []ledger.Surprise, flying *int64) []queue.Update {
	list := make([]queue.Update, len(all))
	for i := range all {
		announcement := &all[i]
		l := s.Limit(&routes.Limit{ID: announcement.ID, Title: announcement.Title, Entity: announcement.Entity, Unit: announcement.Limit.Unit}, a.Reserve)
		l.Key = a.whose(announcement.Site)
		took := int64(0)
		if slices.ContainsFunc(a.Class.Limits, func(l routes.Limit) bool { return l.ID == announcement.ID }) {
			took = 1
		}
		sent, named := a.Sent, a.Lesson.Named
		list[i] = queue.Update{Limit: l, Apply: func(now time.Time, m limit.Meter) {
			if l, ok := m.(*ledger.Ledger); ok {
				surprises[i] = l.Update(now, ledger.Answer{Sent: sent, Units: took, Beside: (1 - took) * *flying, Limit: announcement.Limit, Denied: a.Lesson.Throttled, Refused: announcement.Refused, RetryAt: announcement.RetryAt, Named: named})
			}
		}}
	}
	return list
}

// unannounced returns the updates of ledgers from which the request took, and of which its answer
// says nothing. They do not wait for the end of the body: a websocket or a stream of events may stay open
// for hours, and while a limit is hardly known, requests wait for the answer to another. They set flying to the
// requests in flight that took from them, and so from none of the limits that the answer shows in their place.
func (s *Site) unannounced(a *Answer, said []routes.Announcement, flying *int64) (list []queue.Update) {
	if a.Failed || a.Lesson.Throttled {
		return nil // counted with the request's outcome
	}
	for i := range a.Class.Limits {
		item := &a.Class.Limits[i]
		if item.Kind != routes.Announced || item.Unit != learn.Requests || slices.ContainsFunc(said, func(announced routes.Announcement) bool { return announced.ID == item.ID }) {
			continue
		}
		l := s.Limit(item, a.Reserve)
		l.Key = a.whose(item.Site)
		list = append(list, queue.Update{Limit: l, Apply: func(now time.Time, m limit.Meter) {
			if l, ok := m.(*ledger.Ledger); ok {
				*flying = max(*flying, l.Update(now, ledger.Answer{Sent: a.Sent, Units: 1}).Flying)
			}
		}})
	}
	return list
}
