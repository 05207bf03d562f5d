package proxy

import (
	"fmt"
	"time"

	"github.com/abide-proxy/abide/queue"
)

const (
	// longHold is how long a request waits before its site counts as one that holds
	// requests: a site that is paced for milliseconds is not worth a line.
	longHold = time.Second
	// holdsOver is how long no request must have waited for longHold until the site
	// counts as one that holds none.
	holdsOver = 2 * time.Second
	// lineEvery is the least time between two lines of a kind about a site.
	lineEvery = time.Minute
	// refusalForgotten is how long after a pause a site that is asked for nothing
	// counts as one that refuses.
	refusalForgotten = time.Minute
	// mostSiteLogs bounds the sites of a siteLog. What more sites do has no lines.
	mostSiteLogs = 1000
)

// lineKind is what a line is about. Each kind has its own count of lineEvery.
type lineKind uint8

const (
	holdBegins lineKind = iota
	holdEnds
	refusalBegins
	refusalEnds
	lineKinds
)

// siteLog decides what is logged of sites that hold requests or refuse them. It is
// pure: it takes events and the time, and returns the lines to write. The zero value
// is ready. It is not safe for concurrent use.
type siteLog struct {
	sites  map[string]*siteState // :: site → what it does
	lines  []string              // to be written
	number uint64                // of the last line that counts held requests, written or to come
}

// siteState is what a site does, as far as the lines about it need to know.
type siteState struct {
	holds    queue.SiteHolds // as last seen
	holding  bool
	since    time.Time     // when that began
	seen     time.Time     // when a long hold was last seen
	episodes int           // times that it held requests, since the last line that said so
	held     int           // requests that were held for longHold since then
	longest  time.Duration // that one of these was held, in all its waits since then
	number   uint64        // of the line that will say so

	refusing  bool
	refusedAt time.Time // when that began
	until     time.Time // no request of the refused scope is sent before
	refusals  int       // since the last line about their end
	shown     int       // of these, refusals that a client was given

	due     [lineKinds]time.Time // no line of the kind before
	skipped [lineKinds]int       // lines of the kind that were left out
}

// siteRefusal is an answer of a site that said that it is too much.
type siteRefusal struct {
	site   string
	status int
	scope  string    // "site", "route" or "token", as in refusals_total
	token  string    // label of the token that was refused, "" without one
	until  time.Time // no request of that scope is sent before
	why    string    // the header that said so, or the like
	again  bool      // the request is sent again
}

// state is the state of a site, nil if there are too many of them.
func (l *siteLog) state(now time.Time, site string) *siteState {
	s := l.sites[site]
	if s != nil {
		return s
	}
	if len(l.sites) >= mostSiteLogs {
		l.tidy(now)
		if len(l.sites) >= mostSiteLogs {
			return nil
		}
	}
	if l.sites == nil {
		l.sites = map[string]*siteState{}
	}
	l.number++
	s = &siteState{number: l.number}
	l.sites[site] = s
	return s
}

// tidy forgets the sites of which there is nothing more to say.
func (l *siteLog) tidy(now time.Time) {
	for name, s := range l.sites {
		if s.over(now) {
			delete(l.sites, name)
		}
	}
}

// over tells whether forgetting the state would change no line.
func (s *siteState) over(now time.Time) bool {
	if s.holding || s.refusing {
		return false
	}
	for kind := range lineKinds {
		if s.due[kind].After(now) || s.skipped[kind] > 0 {
			return false
		}
	}
	return true
}

// waiting is told of all that waits, about once a second.
func (l *siteLog) waiting(now time.Time, all []queue.SiteHolds) {
	for _, one := range all {
		if now.Sub(one.Since) < longHold {
			continue
		}
		s := l.state(now, one.Site)
		if s == nil {
			continue
		}
		s.seen, s.holds = now, one
		if !s.holding {
			s.holding, s.since = true, one.Since
			s.episodes++
			l.say(now, s, holdBegins, s.begins(now))
		}
	}
}

// released is told of a request that waits no more, whether it goes or not. so is how
// long the request was held before: one that waits again is no other request.
func (l *siteLog) released(now time.Time, site string, waited time.Duration, so *lineHold) {
	if waited < longHold {
		return
	}
	if s := l.state(now, site); s != nil {
		if so.line != s.number {
			*so = lineHold{line: s.number}
			s.held++
		}
		so.total += waited
		s.longest = max(s.longest, so.total)
	}
}

// refused is told of each refusal. It tells whether the site begins to refuse.
func (l *siteLog) refused(now time.Time, r siteRefusal) (begins bool) {
	s := l.state(now, r.site)
	if s == nil {
		return false
	}
	s.refusals++
	if !r.again {
		s.shown++
	}
	if r.until.After(s.until) {
		s.until = r.until
	}
	if s.refusing {
		return false
	}
	s.refusing, s.refusedAt = true, now
	l.say(now, s, refusalBegins, r.describe(now))
	return true
}

// accepted is told of an answer that is no refusal, and when its request was sent.
// It tells whether the site ceases to refuse by it.
func (l *siteLog) accepted(now time.Time, site string, sent time.Time) (ends bool) {
	s := l.sites[site]
	if s == nil || !s.refusing || sent.Before(s.until) {
		return false
	}
	s.refusing = false
	l.say(now, s, refusalEnds, s.accepts(now, site))
	return true
}

// pass lets time pass: holds end, and lines that were left out become due. It answers
// how many sites cease to refuse because nothing was asked of them for long.
func (l *siteLog) pass(now time.Time) (forgotten int) {
	for name, s := range l.sites {
		switch {
		case s.holding && now.Sub(s.seen) > holdsOver:
			s.holding = false
			l.say(now, s, holdEnds, s.ends(name))
		case s.holding && s.skipped[holdBegins] > 0 && !s.due[holdBegins].After(now):
			s.skipped[holdBegins]-- // the line of this very hold
			l.say(now, s, holdBegins, s.begins(now))
		case !s.holding && s.skipped[holdEnds] > 0 && !s.due[holdEnds].After(now):
			s.skipped[holdEnds]--
			l.say(now, s, holdEnds, s.ends(name))
		}
		switch {
		case s.refusing && now.Sub(s.until) > refusalForgotten:
			s.refusing = false
			s.refusals, s.shown, s.skipped[refusalEnds] = 0, 0, 0
			forgotten++
		case !s.refusing && s.skipped[refusalEnds] > 0 && !s.due[refusalEnds].After(now):
			s.skipped[refusalEnds]--
			l.say(now, s, refusalEnds, s.accepts(now, name))
		}
		if !s.holding {
			s.skipped[holdBegins] = 0 // the line of the end has counted them
		}
		if !s.refusing {
			s.skipped[refusalBegins] = 0
		}
	}
	l.tidy(now)
	return forgotten
}

// finish says what was not said yet, when abide ends.
func (l *siteLog) finish(now time.Time) {
	for name, s := range l.sites {
		s.due = [lineKinds]time.Time{}
		if s.holding || s.skipped[holdEnds] > 0 {
			s.holding, s.skipped[holdEnds] = false, 0
			l.say(now, s, holdEnds, s.ends(name))
		}
		if !s.refusing && s.skipped[refusalEnds] > 0 {
			s.skipped[refusalEnds] = 0
			l.say(now, s, refusalEnds, s.accepts(now, name))
		}
	}
}

// idle tells whether time alone changes nothing.
func (l *siteLog) idle() bool { return len(l.sites) == 0 }

// take answers the lines to write, once.
func (l *siteLog) take() []string {
	lines := l.lines
	l.lines = nil
	return lines
}

// say adds a line if one of its kind is due, and counts it otherwise.
func (l *siteLog) say(now time.Time, s *siteState, kind lineKind, text string) {
	if s.due[kind].After(now) {
		s.skipped[kind]++
		return
	}
	s.due[kind] = now.Add(lineEvery)
	switch kind {
	case holdBegins, refusalBegins:
		if n := s.skipped[kind]; n > 0 {
			text += fmt.Sprintf("; %s since the last such line", times(n))
		}
	case holdEnds:
		l.number++
		s.episodes, s.held, s.longest, s.number = 0, 0, 0, l.number
	case refusalEnds:
		s.refusals, s.shown = 0, 0
	}
	s.skipped[kind] = 0
	l.lines = append(l.lines, text)
}

// begins is the line of a site that begins to hold requests.
func (s *siteState) begins(now time.Time) string {
	h := &s.holds
	return fmt.Sprintf("%s: %s %s", h.Site, heldRequests(h), HeldUntil(now, h.Keeps))
}

// heldRequests says how many requests are held, and whose.
func heldRequests(h *queue.SiteHolds) string {
	is, whose := "are", ""
	if h.Held == 1 {
		is = "is"
	}
	switch {
	case h.Clients > 1:
		whose = fmt.Sprintf(" of %d clients", h.Clients)
	case h.Client != "":
		whose = " of " + h.Client
	}
	return requests(h.Held) + whose + " " + is + " held"
}

// HeldUntil says until when a request is held, and what for.
func HeldUntil(now time.Time, k queue.Keeps) string {
	text := "until " + clockTime(now, k.Until)
	switch {
	case k.First:
		text = "until those before it have gone"
	case k.Asks:
		text = "until the store has answered"
	case k.Until.IsZero():
		text = "until another request is finished"
	}
	switch {
	case k.Limit == "cooldown" && k.Why == becauseBroken:
		return text + ": the site failed"
	case k.Limit == "cooldown" && k.Why != "":
		return text + ": the site refused requests (" + k.Why + ")"
	case k.Limit == "cooldown":
		return text + ": the site refused requests"
	case k.Limit == slotOfToken && k.Why != "":
		return text + ": no token may be used before (" + k.Why + ")"
	case k.Limit == "retry":
		return text + ", before it is sent again"
	case k.Why != "":
		return text + ", limit: " + k.Limit + " (" + k.Why + ")"
	}
	return text + ", limit: " + k.Limit
}

// ends is the line of a site that holds requests no more.
func (s *siteState) ends(site string) string {
	took := max(s.seen.Sub(s.since), s.longest)
	text := fmt.Sprintf("%s: no request is held any more", site)
	if s.episodes > 1 {
		text += fmt.Sprintf(", after %s since the last such line", times(s.episodes))
	} else {
		text += ", after " + InSeconds(took)
	}
	return text + fmt.Sprintf("; held for over a second: %s, the longest for %s", requests(s.held), InSeconds(s.longest))
}

// describe is the line of a site that begins to refuse requests.
func (r *siteRefusal) describe(now time.Time) string {
	text := fmt.Sprintf("%s: the site refuses a request (status %d)", r.site, r.status)
	if r.token != "" {
		text += " with the token " + r.token
	}
	what := "is sent to the site"
	switch r.scope {
	case "token":
		what = "is sent with this token"
	case "route":
		what = "under the same limit is sent"
	}
	text += fmt.Sprintf("; nothing %s until %s (%s); ", what, clockTime(now, r.until), r.why)
	if r.again {
		return text + "the request is sent again then, the client does not see it"
	}
	return text + "the client is given the refusal"
}

// accepts is the line of a site that does not refuse requests any more.
func (s *siteState) accepts(now time.Time, site string) string {
	text := fmt.Sprintf("%s: the site accepts requests again", site)
	if s.skipped[refusalEnds] == 0 {
		text += ", after " + InSeconds(now.Sub(s.refusedAt))
	} else {
		text += fmt.Sprintf(", %s since the last such line", times(s.skipped[refusalEnds]+1))
	}
	return text + fmt.Sprintf("; refusals: %d, of which clients saw %d", s.refusals, s.shown)
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// clockTime is a time of day, with the date if that is another day.
func clockTime(now, at time.Time) string {
	layout := "15:04:05"
	if at.Sub(now) > 12*time.Hour {
		layout = "2006-01-02 15:04:05"
	}
	up := at.Add(time.Second - 1).Truncate(time.Second) // it is not sent before at
	return up.In(now.Location()).Format(layout) + " (in " + InSeconds(max(at.Sub(now), 0)) + ")"
}

// InSeconds is a duration for people: 2.1s, 40s, 3m20s.
func InSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
