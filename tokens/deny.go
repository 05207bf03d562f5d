package tokens

import (
	"net/http"
	"time"
)

const (
	quarantine  = 10 * time.Minute // the first
	quarantined = 24 * time.Hour   // the longest
	strikes     = 3                // denials in a row that put one there
	mostDenials = 3                // tokens that one request is tried with
)

// Denials is what a request remembers of tokens that were denied for it. The zero
// value is none yet. It belongs to one request and is not safe for concurrent use.
type Denials struct {
	n    int
	list [mostDenials]denial
}

// denial is one token's.
type denial struct {
	token    *Token
	status   int
	sent     time.Time
	was, is  rejection // before and after it
	credible bool      // the token was accepted the last time, so the blame may be the request's
}

// None tells whether no token was denied.
func (d *Denials) None() bool { return d.n == 0 }

func (d *Denials) has(s *state) bool {
	for i := range d.n {
		if d.list[i].token.state == s {
			return true
		}
	}
	return false
}

// Denial is what follows from one.
type Denial struct {
	Until     time.Time // the token is quarantined until then; zero is not at all
	Again     bool      // another token should be tried before the client sees the answer
	Acquitted []*Token  // whose quarantine was a mistake, and is over
}

// Success says that a site has accepted a token: any answer that is about something
// else, also a refusal for a limit. sent is when the request had been sent: what it
// says may be older than what is known. It ends a quarantine. Denials of the same
// request, which may be nil, were rightly those of the tokens then, and 401s put
// these into quarantine; they are answered.
func (p *Pool) Success(now time.Time, t *Token, sent time.Time, d *Denials) []*Token {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := t.state
	if !s.rejection.sent.After(sent) {
		p.note(s.reject(rejection{}))
		s.trial = time.Time{}
		s.excused = 0
		s.witness.Store(now.UnixNano())
	}
	s.proven = true
	if sent.After(s.accepted) {
		s.accepted = sent
	}
	if d == nil {
		return nil
	}
	var guilty []*Token
	for i := range d.n {
		one := &d.list[i]
		other := one.token.state
		if one.status != http.StatusUnauthorized || one.token.state == s || other.rejection.until.After(now) || other.accepted.After(one.sent) {
			continue
		}
		r := other.rejection
		r.sent, r.why = one.sent, denialWhy(one.status)
		p.note(other.reject(r.confined(now)))
		other.witness.Store(0)
		guilty = append(guilty, one.token)
	}
	*d = Denials{}
	return guilty
}

// Deny says that a site has not accepted a token: 401, or 403 without any sign of a
// limit. The first 401 quarantines it, three denials in a row do in any case, and
// one is enough for a token that has just come from there. But if a token that had
// been accepted before is denied after another, for the same request, the blame is
// the request's, and nothing is held against them.
//
// A pool where nobody else can be asked quarantines a token that had been accepted
// before at the third denial only, since some sites answer 401 to questions about
// what is not public.
func (p *Pool) Deny(now time.Time, t *Token, status int, sent time.Time, d *Denials) Denial {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := t.state
	s.denials++
	if d != nil && d.has(s) {
		// There was no other to ask, and what one request is denied twice says no more
		// than what it is denied once.
		s.trial = time.Time{}
		return Denial{Until: s.quarantinedUntil(now)}
	}
	credible := s.witness.Load() > 0
	was := s.rejection
	is := was
	switch {
	case sent.Before(s.accepted): // older than what is known
	case sent.Before(was.since): // known
	default:
		is.row++
		is.sent, is.why = sent, denialWhy(status)
		need := strikes
		if was.times > 0 || status == http.StatusUnauthorized && (!s.proven || p.others(now, t, d)) {
			need = 1
		}
		if is.row >= need && !was.until.After(now) {
			is = is.confined(now)
		}
		s.trial = time.Time{}
		s.witness.Store(0)
		p.note(s.reject(is))
	}
	if d == nil {
		return Denial{Until: s.quarantinedUntil(now)}
	}
	if d.n < mostDenials {
		d.list[d.n] = denial{t, status, sent, was, is, credible}
		d.n++
		if d.n > 1 && credible {
			p.version.Add(1)
			free := d.acquit(now)
			return Denial{Until: s.quarantinedUntil(now), Acquitted: free}
		}
	}
	return Denial{Until: s.quarantinedUntil(now), Again: d.n < mostDenials && p.others(now, t, d)}
}

// others tells whether another token can be asked for its opinion.
func (p *Pool) others(now time.Time, t *Token, d *Denials) bool {
	for _, other := range p.all {
		s := other.state
		if s != t.state && s.disabled == "" && !s.rejection.until.After(now) && (d == nil || !d.has(s)) {
			return true
		}
	}
	return false
}

// acquit undoes what the request's denials have done. It answers those that come
// out of quarantine by it.
func (d *Denials) acquit(now time.Time) []*Token {
	var free []*Token
	for i := range d.n {
		one := &d.list[i]
		s := one.token.state
		if one.is == one.was || s.accepted.After(one.sent) {
			continue // it has done nothing, or a success has undone it
		}
		r := s.rejection
		r.row = max(r.row-1, 0)
		if one.is.times > one.was.times && r.times == one.is.times {
			if r.until.After(now) {
				free = append(free, one.token)
			}
			r.times, r.since, r.until = one.was.times, one.was.since, one.was.until
		}
		s.reject(r)
		if one.credible && s.excused < strikes {
			s.excused++
			s.witness.Store(1) // it still is one, but the last to be asked
		}
	}
	*d = Denials{}
	return free
}

// confined is a rejection with one more quarantine.
func (r rejection) confined(now time.Time) rejection {
	r.times++
	r.since, r.until = now, now.Add(confinement(r.times))
	return r
}

// confinement is how long the quarantine is that is the nth in a row.
func confinement(n int) time.Duration {
	if n > 16 {
		return quarantined
	}
	return min(quarantine<<max(n-1, 0), quarantined)
}

func (s *state) quarantinedUntil(now time.Time) time.Time {
	if s.rejection.until.After(now) {
		return s.rejection.until
	}
	return time.Time{}
}

func denialWhy(status int) string {
	if status == http.StatusUnauthorized {
		return "401"
	}
	return "403 without a limit"
}
