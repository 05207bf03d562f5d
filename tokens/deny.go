package tokens

import (
	"net/http"
	"slices"
	"time"
)

const (
	firstQuarantine     = 10 * time.Minute // length of the first quarantine
	longestQuarantine   = 24 * time.Hour   // upper bound of each quarantine
	denialsToQuarantine = 3                // denials in a row after which a token is quarantined
	maxDenials          = 3                // tokens that one request is tried with
)

// Denials lists the tokens that were denied for one request. The zero value is empty. It
// belongs to one request and is not safe for concurrent use.
type Denials struct {
	n    int
	list [maxDenials]denial
}

// denial is the denial of one token for one request.
type denial struct {
	token         *Token
	status        int
	sent          time.Time
	before, after rejection // the token's rejection before and after this denial
	credible      bool      // the token was accepted the last time, so the request may be the cause
}

// None tells whether no token was denied.
func (d *Denials) None() bool { return d.n == 0 }

func (d *Denials) has(s *state) bool {
	return slices.ContainsFunc(d.list[:d.n], func(d denial) bool { return d.token.state == s })
}

// denyResult is the decision of Deny.
type denyResult struct {
	Until    time.Time // end of the token's quarantine; zero: not quarantined
	Again    bool      // another token should be tried before the client gets the answer
	Released []*Token  // tokens whose quarantine was a mistake and has been ended
}

// Success records that a site has accepted a token: any answer that does not deny the
// token, including a refusal because of a limit. It ends the token's quarantine. sent is
// the time the request was sent; an answer older than a later denial changes nothing. d,
// which may be nil, lists tokens denied for the same request before. Because this token was
// accepted, those denials were justified: tokens denied with a 401 are quarantined and
// returned.
func (p *Pool) Success(now time.Time, t *Token, sent time.Time, d *Denials) []*Token {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := t.state
	if !s.rejection.sent.After(sent) {
		p.bumpVersionIf(s.reject(rejection{}))
		s.trialSince = time.Time{}
		s.ignoredDenials = 0
		s.lastAccepted.Store(now.UnixNano())
	}
	s.proven = true
	if sent.After(s.accepted) {
		s.accepted = sent
	}
	if d == nil {
		return nil
	}
	var quarantined []*Token
	for i := range d.n {
		denied := &d.list[i]
		other := denied.token.state
		if denied.status != http.StatusUnauthorized || denied.token.state == s || other.rejection.until.After(now) || other.accepted.After(denied.sent) {
			continue
		}
		r := other.rejection
		r.sent, r.reason = denied.sent, denialReason(denied.status)
		p.bumpVersionIf(other.reject(r.withQuarantine(now)))
		other.lastAccepted.Store(0)
		quarantined = append(quarantined, denied.token)
	}
	*d = Denials{}
	return quarantined
}

// Deny records that a site has not accepted a token: a 401, or a 403 without any sign of a
// limit. The first 401 quarantines the token if another token can be tried, and three
// denials in a row always do. A token that comes from quarantine is quarantined again by
// one denial. If a second token that had been accepted before is denied for the same
// request, the request is taken to be the cause, and the denials are undone.
//
// In a pool without another usable token, a token that had been accepted before is
// quarantined at the third denial only, since some sites answer 401 for resources that are
// not public.
func (p *Pool) Deny(now time.Time, t *Token, status int, sent time.Time, d *Denials) denyResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := t.state
	s.denials++
	if d != nil && d.has(s) {
		// No other token was available. Two denials of one request count once.
		s.trialSince = time.Time{}
		return denyResult{Until: s.quarantinedUntil(now)}
	}
	credible := s.lastAccepted.Load() > 0
	was := s.rejection
	rejection := was
	switch {
	case sent.Before(s.accepted): // older than the last success
	case sent.Before(was.since): // sent before the current quarantine
	default:
		rejection.denialsInRow++
		rejection.sent, rejection.reason = sent, denialReason(status)
		need := denialsToQuarantine
		if was.quarantinesInRow > 0 || status == http.StatusUnauthorized && (!s.proven || p.hasOthers(now, t, d)) {
			need = 1
		}
		if rejection.denialsInRow >= need && !was.until.After(now) {
			rejection = rejection.withQuarantine(now)
		}
		s.trialSince = time.Time{}
		s.lastAccepted.Store(0)
		p.bumpVersionIf(s.reject(rejection))
	}
	if d == nil {
		return denyResult{Until: s.quarantinedUntil(now)}
	}
	if d.n < maxDenials {
		d.list[d.n] = denial{t, status, sent, was, rejection, credible}
		d.n++
		if d.n > 1 && credible {
			p.version.Add(1)
			released := d.undo(now)
			return denyResult{Until: s.quarantinedUntil(now), Released: released}
		}
	}
	return denyResult{Until: s.quarantinedUntil(now), Again: d.n < maxDenials && p.hasOthers(now, t, d)}
}

// hasOthers tells whether another token can be tried.
func (p *Pool) hasOthers(now time.Time, t *Token, d *Denials) bool {
	for _, other := range p.all {
		s := other.state
		if s != t.state && s.disabled == "" && !s.rejection.until.After(now) && (d == nil || !d.has(s)) {
			return true
		}
	}
	return false
}

// undo reverts the effects of the request's denials and returns the tokens that leave
// quarantine.
func (d *Denials) undo(now time.Time) []*Token {
	var released []*Token
	for i := range d.n {
		denied := &d.list[i]
		s := denied.token.state
		if denied.after == denied.before || s.accepted.After(denied.sent) {
			continue // it had no effect, or a success has undone it
		}
		r := s.rejection
		r.denialsInRow = max(r.denialsInRow-1, 0)
		if denied.after.quarantinesInRow > denied.before.quarantinesInRow && r.quarantinesInRow == denied.after.quarantinesInRow {
			if r.until.After(now) {
				released = append(released, denied.token)
			}
			r.quarantinesInRow, r.since, r.until = denied.before.quarantinesInRow, denied.before.since, denied.before.until
		}
		s.reject(r)
		if denied.credible && s.ignoredDenials < denialsToQuarantine {
			s.ignoredDenials++
			s.lastAccepted.Store(1) // still usable for this check, but tried last
		}
	}
	*d = Denials{}
	return released
}

// withQuarantine returns the rejection with one more quarantine that begins now.
func (r rejection) withQuarantine(now time.Time) rejection {
	r.quarantinesInRow++
	r.since, r.until = now, now.Add(quarantineLength(r.quarantinesInRow))
	return r
}

// quarantineLength is the length of the nth quarantine in a row.
func quarantineLength(n int) time.Duration {
	if n > 16 {
		return longestQuarantine
	}
	return min(firstQuarantine<<max(n-1, 0), longestQuarantine)
}

func (s *state) quarantinedUntil(now time.Time) time.Time {
	if s.rejection.until.After(now) {
		return s.rejection.until
	}
	return time.Time{}
}

func denialReason(status int) string {
	if status == http.StatusUnauthorized {
		return "401"
	}
	return "403 without a limit"
}
