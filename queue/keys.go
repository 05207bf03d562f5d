package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

const (
	// longestKey is the longest key that is kept as it is. Routes and clients come
	// from strangers.
	longestKey = 128
	// mostSlots is how many clients and routes of a site have their own meters, where
	// requests do not have as many alternatives.
	mostSlots = 10_000
	// slotsEach is how many slots there may be for each alternative of a request.
	slotsEach = 4
	// crowded is how often a site that has so many looks for some to forget, and how
	// often any site does for those that are nobody's own. The next request that could
	// go with any of many tokens brings back all that were forgotten.
	crowded = time.Second
	// others is the key of all that come after.
	others = "other"
)

// short is a key of bounded length, longer than any that is kept as it is, so
// that nobody can ask for another one's meter by it.
func short(key string) string {
	if len(key) <= longestKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return key[:longestKey-32] + "~" + hex.EncodeToString(sum[:16])
}

// isShort tells whether a key is one that short has made of a longer one.
func isShort(key string) bool { return len(key) == longestKey+1 && key[longestKey-32] == '~' }

// mostSlots is how many slots the site may have: its tokens are the operator's.
func (s *site) mostSlots() int { return max(mostSlots, slotsEach*s.alternatives) }

// entry is the slot of a scope, or nil. When a site has as many as it may,
// all that are new share one slot of their limit, for as long as it remembers
// anything: so each gets less than the limit allows, and never more.
func (s *site) entry(at Scope) *entry {
	if e := s.slots[at]; e != nil {
		return e
	}
	if at.Key != "" {
		return s.rest[at.Limit]
	}
	return nil
}

// keep remembers a limit's new slot where entry will find it, and answers whose it is.
func (s *site) keep(l *Limit, at Scope, e *entry) Scope {
	if at.Key != "" && len(s.slots) >= s.mostSlots() {
		e.slot.rename(l.label(others), l.title())
		if s.rest == nil {
			s.rest = map[string]*entry{}
		}
		s.rest[l.Name] = e
		return Scope{l.Name, others}
	}
	if s.slots == nil {
		s.slots = map[Scope]*entry{}
	}
	s.slots[at] = e
	return at
}

// sweep forgets slots of clients and routes that are not seen any more, when
// there are twice as many as the last time, or as many as there may be. Nobody
// may have looked up a slot that he has not taken from: plan begins with it.
func (s *site) sweep(now time.Time) {
	// One for each limit, and a server may have named thousands.
	if len(s.rest) > 0 && (len(s.rest) <= 16 || !now.Before(s.tidies)) {
		s.tidies = now.Add(crowded)
		for name, e := range s.rest {
			if s.sched.Forget(now, e.slot) {
				delete(s.rest, name)
				s.forgetPatterns()
			}
		}
	}
	if len(s.slots) < min(max(16, 2*s.swept), s.mostSlots()) || now.Before(s.sweeps) {
		return
	}
	lasting := !now.Before(s.lasting)
	if lasting {
		s.lasting = now.Add(time.Duration(1+s.alternatives/100) * crowded)
	}
	for at, e := range s.slots {
		if (e.own || lasting) && s.sched.Forget(now, e.slot) {
			delete(s.slots, at)
			s.forgetPatterns()
		}
	}
	s.swept = len(s.slots)
	if s.swept > mostSlots/2 {
		s.sweeps = now.Add(crowded)
	}
}
