package tokens

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	firstQuarantine      = 10 * time.Minute // length of the first quarantine
	longestQuarantine    = 24 * time.Hour   // upper bound of each quarantine
	denialsToQuarantine  = 3                // denials in a row after which a token is quarantined
	maxDenials           = 3                // tokens that one request is tried with
	refusingFor          = 10 * time.Minute // the time after which a route that refused several tokens is tried with several again
	failuresToTryAnother = 3                // failures in a row after which a request is tried with another token
	agreementsToTrust    = 3                // denials that tokens agree on after which their success with other requests of a route does not end its refusals

	// contradictionsToQuarantine are the failures in a row that another token does not have with the
	// same request. A site may fail at random, and a client sees none of these failures.
	contradictionsToQuarantine = 5
)

// Answer describes the answer to a request with a token.
type Answer struct {
	Status int
	Reason string    // why the site does not accept the token, if the answer says so
	Sent   time.Time // when the request was sent
	Site   string    // that has answered; "": not known
	Route  string    // of the request, which names its site, too; "": not known
}

// Denies tells whether the site does not accept the token.
func (a *Answer) Denies() bool {
	return a.Reason != "" || a.doubtful() || a.Status == http.StatusForbidden
}

// doubtful tells whether an answer may be due to the token or to the request: 401 and 402 say
// nothing of the reason.
func (a *Answer) doubtful() bool {
	return a.Reason == "" && (a.Status == http.StatusUnauthorized || a.Status == http.StatusPaymentRequired)
}

// why describes a denial for operators.
func (a *Answer) why() string {
	switch {
	case a.Reason != "":
		return strconv.Itoa(a.Status) + ": " + a.Reason
	case a.doubtful():
		return strconv.Itoa(a.Status)
	}
	return "403 without a limit"
}

// othersSucceed ends the reason of a quarantine after failures.
const othersSucceed = " where another token succeeds"

// Denials lists the tokens that were denied for one request. The zero value is empty. It
// belongs to one request and is not safe for concurrent use.
type Denials struct {
	n    int
	list [maxDenials]denial
}

// denial is the denial of one token for one request.
type denial struct {
	token         *Token
	answer        Answer
	failed        bool      // by Fail
	before, after rejection // the token's rejection before and after this denial
	credible      bool      // the token was accepted the last time, so the request may be the cause
}

// None tells whether no token was denied.
func (d *Denials) None() bool { return d.n == 0 }

func (d *Denials) has(s *state) bool {
	return slices.ContainsFunc(d.list[:d.n], func(d denial) bool { return d.token.state == s })
}

// Decision describes the consequences of an answer.
type Decision struct {
	Until    time.Time // end of the token's quarantine; zero: not quarantined
	Last     bool      // the token is not accepted, and stays in use because no other token can be tried
	Again    bool      // another token should be tried before the client gets the answer
	Blamed   bool      // the request is the cause: other tokens are denied for it, too
	Released []*Token  // tokens whose quarantine has been ended

	Quarantined []*Token // other tokens, that are not accepted where this one is
}

// Success records that a site has accepted a token: any answer that does not deny the
// token, including a refusal because of a limit. It ends the token's quarantine. An answer
// older than a later denial changes nothing. d, which may be nil, lists tokens denied for
// the same request before. Because this token was accepted, those denials were justified:
// tokens denied with 401 or 402, and those that failed often, are quarantined.
func (p *Pool) Success(now time.Time, t *Token, a Answer, d *Denials) Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Status < http.StatusBadRequest {
		if d != nil && d.n > 0 && d.list[0].credible {
			delete(p.refusing, a.Route) // the tokens do not agree
		} else if r := p.refusing[a.Route]; r.agreed > 0 {
			p.refusing[a.Route] = refusals{r.until, r.agreed, true}
		}
		t.state.failures, t.state.doubtAt, t.state.contradictions = 0, 0, 0
	}
	return p.accept(now, t, a, d)
}

// accept records that a site has accepted a token. What another site has denied stays denied there.
func (p *Pool) accept(now time.Time, t *Token, a Answer, d *Denials) (result Decision) {
	s, sent := t.state, a.Sent
	if !s.rejection.sent.After(sent) && s.rejection.covers(a.Site) {
		if s.rejection.until.After(now) {
			result.Released = []*Token{t}
		}
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
		return result
	}
	for i := range d.n {
		denied := &d.list[i]
		other := denied.token.state
		if !denied.failed && !denied.answer.doubtful() && denied.after.denialsInRow < denialsToQuarantine || denied.token.state == s || other.rejection.until.After(now) || !denied.failed && other.accepted.After(denied.answer.Sent) {
			continue
		}
		if denied.failed {
			if other.contradictions++; other.contradictions < contradictionsToQuarantine {
				continue // the next failure is tried with another token, too
			}
		}
		r := other.rejection.by(denied.answer.Site)
		if r.sent, r.reason = denied.answer.Sent, denied.answer.why(); denied.failed {
			r.reason = strconv.Itoa(denied.answer.Status) + othersSucceed
		}
		p.bumpVersionIf(other.reject(r.withQuarantine(now)))
		result.Quarantined = append(result.Quarantined, denied.token)
	}
	*d = Denials{}
	return result
}

// Deny records that a site has not accepted a token: 401, 402, 403 without any sign of a
// limit, and whatever says that it is because of the token. An answer with a reason, and the
// first 401 or 402, quarantines the token at that site if another token can be tried, and at
// all sites once a second site denies it. So do three denials in a row, of 403 once another token is
// accepted for the same request; also where no other can be tried, but for 403 and an answer with a reason: a client
// learns more from these than by waiting. A token that comes from quarantine is quarantined again by
// one denial. If a second token that had been accepted before is denied for the same
// request, the request is taken to be the cause, and the denials are undone: see refuses.
//
// In a pool without another usable token, a token that had been accepted before is
// quarantined at the third denial only, since some sites answer 401 for resources that are
// not public.
func (p *Pool) Deny(now time.Time, t *Token, a Answer, d *Denials) Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deny(now, t, a, d)
}

func (p *Pool) deny(now time.Time, t *Token, a Answer, d *Denials) Decision {
	s := t.state
	s.denials++
	if r := p.refusing[a.Route]; s.proven && a.Reason == "" && r.until.After(now) && (!r.mixed || a.Status == http.StatusForbidden && r.agreed >= agreementsToTrust && s.ignoredDenials < denialsToQuarantine) {
		s.ignoredDenials++
		return Decision{Until: s.quarantinedUntil(now), Blamed: true}
	}
	if d != nil && d.has(s) {
		// No other token was available. Two denials of one request count once.
		s.trialSince = time.Time{}
		return Decision{Until: s.quarantinedUntil(now)}
	}
	was := s.rejection
	credible := s.proven && was.quarantinesInRow == 0 && (a.Status == http.StatusForbidden || s.ignoredDenials < denialsToQuarantine)
	rejection, last := was, false
	switch {
	case was.quarantinesInRow > 0 && !was.covers(a.Site) && a.Reason == "" && !a.doubtful(): // a forbidden page of another site
	case a.Sent.Before(s.accepted): // older than the last success
	case a.Sent.Before(was.since): // sent before the current quarantine
	default:
		rejection = rejection.by(a.Site)
		rejection.denialsInRow++
		rejection.sent, rejection.reason = a.Sent, a.why()
		need, others := denialsToQuarantine, p.hasOthers(now, t, a.Site, d)
		if was.quarantinesInRow > 0 || a.Reason != "" || a.doubtful() && (!s.proven || others) {
			need = 1
		}
		last = (a.Reason != "" || a.Status == http.StatusForbidden) && !p.hasOthers(now, t, a.Site, nil)
		asksOther := d != nil && a.Reason == "" && !a.doubtful() && was.quarantinesInRow == 0 // the answer with another token decides
		if rejection.denialsInRow >= need && !was.until.After(now) && !last && !asksOther {
			rejection = rejection.withQuarantine(now)
		}
		s.trialSince = time.Time{}
		p.bumpVersionIf(s.reject(rejection))
	}
	result := Decision{Until: s.quarantinedUntil(now)}
	if !result.Until.IsZero() && !p.hasOthers(now, t, a.Site, nil) {
		result.Released = p.releaseOne(now)
	}
	switch {
	case d == nil:
		return result
	case a.Reason != "": // the request is not the cause
		result.Last = last && rejection.denialsInRow == 1
	case d.n < maxDenials:
		d.list[d.n] = denial{token: t, answer: a, before: was, after: rejection, credible: credible}
		if d.n++; d.n > 1 && credible {
			p.version.Add(1)
			p.refuses(now, a.Route)
			released := d.undo(now)
			return Decision{Until: s.quarantinedUntil(now), Released: released, Blamed: true}
		}
	}
	result.Again = d.n < maxDenials && p.hasOthers(now, t, a.Site, d)
	return result
}

// releaseOne ends the quarantine of a token whose answer has said why, where none is left: its answers tell
// clients more than a wait.
func (p *Pool) releaseOne(now time.Time) []*Token {
	told := p.first(func(t *Token) bool {
		return t.state.disabled == "" && t.state.rejection.until.After(now) && strings.Contains(t.state.rejection.reason, ": ")
	})
	if told == nil {
		return nil
	}
	r := told.state.rejection
	p.bumpVersionIf(told.state.reject(rejection{denialsInRow: 1, sent: r.sent, reason: r.reason, site: r.site}))
	return []*Token{told}
}

// refusals are those of a route that have been found to be due to its requests.
type refusals struct {
	until  time.Time // when several tokens are tried there again
	agreed int       // requests that tokens were agreed to be denied for
	mixed  bool      // tokens have been accepted there since
}

// refuses records that a route refuses tokens that other requests have accepted. Until one is accepted there,
// its refusals say nothing of tokens, and no other token is tried; after a while they do again. Where
// tokens agree often, that is so for each token's next refusals after another request was accepted, too.
func (p *Pool) refuses(now time.Time, route string) {
	if len(p.refusing) >= maxRoutes {
		maps.DeleteFunc(p.refusing, func(_ string, r refusals) bool { return !r.until.After(now) })
	}
	if r, known := p.refusing[route]; route != "" && (known || len(p.refusing) < maxRoutes) {
		p.refusing[route] = refusals{until: now.Add(refusingFor), agreed: r.agreed + 1}
	}
}

// Fail records an answer from 400 to 499 that denies nothing and names no limit. Usually the
// request is the cause. But after some failures of a token in a row, the next request that
// fails is tried with another token, too, whatever its status: if that succeeds several times in a
// row, the token is the cause and is quarantined, and if it does not, the token is doubted less often.
func (p *Pool) Fail(now time.Time, t *Token, a Answer, d *Denials) Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := t.state
	if s.rejection.quarantinesInRow > 0 && s.rejection.covers(a.Site) && strings.HasSuffix(s.rejection.reason, othersSucceed) {
		a.Reason = strings.TrimSpace(othersSucceed)
		return p.deny(now, t, a, d)
	}
	if d.n > 0 && d.list[d.n-1].failed { // the request fails with both
		first := d.list[d.n-1].token.state
		first.doubtAt = 2 * max(first.failures, failuresToTryAnother)
		first.contradictions = 0
		*d = Denials{}
		return p.accept(now, t, a, nil)
	}
	s.failures++
	doubt := d.n == 0 && s.failures >= max(s.doubtAt, failuresToTryAnother) && p.hasOthers(now, t, a.Site, d)
	result := p.accept(now, t, a, d)
	if result.Again = doubt; doubt {
		d.list[0], d.n = denial{token: t, answer: a, failed: true}, 1
	}
	return result
}

// hasOthers tells whether another token can be tried at a site.
func (p *Pool) hasOthers(now time.Time, t *Token, site string, d *Denials) bool {
	return slices.ContainsFunc(p.all, func(other *Token) bool {
		s := other.state
		return s != t.state && s.disabled == "" && !(s.rejection.until.After(now) && s.rejection.covers(site)) && (d == nil || !d.has(s))
	})
}

// undo reverts the effects of the request's denials and returns the tokens that leave
// quarantine.
func (d *Denials) undo(now time.Time) []*Token {
	var released []*Token
	for i := range d.n {
		denied := &d.list[i]
		s := denied.token.state
		if denied.after == denied.before || s.accepted.After(denied.answer.Sent) {
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
		s.ignoredDenials++
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
	return min(firstQuarantine<<min(max(n-1, 0), 16), longestQuarantine)
}

func (s *state) quarantinedUntil(now time.Time) time.Time {
	if s.rejection.until.After(now) {
		return s.rejection.until
	}
	return time.Time{}
}
