package sitelog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
)

const (
	// longHold is the wait of a request from which its site is logged as holding requests.
	longHold = time.Second
	// holdsOver is the time without a wait of longHold after which the site is logged as
	// holding none.
	holdsOver = 2 * time.Second
	// lineEvery is the least time between two lines of a kind about a site.
	lineEvery = time.Minute
	// refusalForgotten is the time after a pause for which a site without requests still counts as
	// refusing.
	refusalForgotten = time.Minute
	// mostSites bounds the sites of siteLines. What more sites do has no lines.
	mostSites = 1000
	// mostCauses bounds the causes of one hold that have a line each.
	mostCauses = 8
)

// lineKind is the kind of a line. Each kind has its own lineEvery.
type lineKind uint8

const (
	holdBegins lineKind = iota
	holdEnds
	refusalBegins
	refusalEnds
	lineKinds
)

// siteLines decides what is logged about sites that hold or refuse requests. It is pure: it
// takes events and the time, and returns lines. The zero value is ready. It is not safe for
// concurrent use.
type siteLines struct {
	sites  map[string]*siteState // :: site → its state
	lines  []siteLine            // to be written
	number uint64                // of the last line that counts held requests, written or planned
}

// siteLine is a line of the log. Its text says the values of its fields, too.
type siteLine struct {
	text   string
	fields logrus.Fields
	last   func() time.Time // when the last of several held requests goes; nil: the line does not say it
}

// state is the state of a site, nil if there are too many of them.
func (l *siteLines) state(now time.Time, site string) *siteState {
	if s := l.sites[site]; s != nil {
		return s
	}
	if len(l.sites) >= mostSites {
		l.tidy(now)
		if len(l.sites) >= mostSites {
			return nil
		}
	}
	if l.sites == nil {
		l.sites = map[string]*siteState{}
	}
	l.number++
	s := &siteState{number: l.number}
	l.sites[site] = s
	return s
}

// tidy forgets sites without anything to log.
func (l *siteLines) tidy(now time.Time) {
	maps.DeleteFunc(l.sites, func(_ string, s *siteState) bool { return s.over(now) })
}

// waiting takes the requests that wait at each site. It is called about once a second.
func (l *siteLines) waiting(now time.Time, all []queue.SiteWaiting) {
	for _, one := range all {
		if now.Sub(one.Since) < longHold {
			continue
		}
		s := l.state(now, one.Site)
		if s == nil {
			continue
		}
		s.seen, s.holds = now, one
		cause := one.Blocker.Limit + ": " + one.Blocker.Why
		if !s.holding {
			s.holding, s.since, s.causes = true, one.Since, nil
			s.episodes++
		} else if slices.Contains(s.causes, cause) || len(s.causes) >= mostCauses || one.Blocker.Behind || one.Blocker.Asking {
			continue
		}
		s.causes = append(s.causes, cause)
		l.say(now, s, holdBegins, s.begins(now))
	}
}

// released records the end of a request's wait, whether it is sent or not. so is its wait
// so far: a request that waits again is not counted again.
func (l *siteLines) released(now time.Time, site string, waited time.Duration, so *lineWait) {
	if waited < longHold {
		return
	}
	if s := l.state(now, site); s != nil {
		if so.line != s.number {
			*so = lineWait{line: s.number}
			s.held++
		}
		so.total += waited
		s.longest = max(s.longest, so.total)
	}
}

// refused records a refusal, and tells whether the site begins to refuse.
func (l *siteLines) refused(now time.Time, r Refusal) (begins bool) {
	s := l.state(now, r.Site)
	if s == nil {
		return false
	}
	s.refusals++
	if !r.Again {
		s.shown++
	}
	s.until = status.Later(s.until, r.Until)
	if s.refusing {
		return false
	}
	s.refusing, s.refusedAt = true, now
	l.say(now, s, refusalBegins, r.describe(now))
	return true
}

// accepted records an answer that is no refusal, with the time its request was sent. It
// tells whether the site stops refusing.
func (l *siteLines) accepted(now time.Time, site string, sent time.Time) (ends bool) {
	s := l.sites[site]
	if s == nil || !s.refusing || sent.Before(s.until) {
		return false
	}
	s.refusing, s.acceptedAt = false, now
	l.say(now, s, refusalEnds, s.accepts(site))
	return true
}

// pass advances the time: holds end, and postponed lines become due. It returns how many
// sites stop refusing because they got no requests for long.
func (l *siteLines) pass(now time.Time) (forgotten int) {
	for name, s := range l.sites {
		switch {
		case s.holding && now.Sub(s.seen) > holdsOver:
			s.holding = false
			l.say(now, s, holdEnds, s.ends(name))
		case s.holding && s.seen.Equal(now) && (s.skipped[holdBegins] > 0 && !s.due[holdBegins].After(now) || Outdated(now, s.since, s.due[holdBegins].Add(-lineEvery), time.Time{})):
			s.skipped[holdBegins] = max(s.skipped[holdBegins]-1, 0) // the line of this very hold
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
			l.say(now, s, refusalEnds, s.accepts(name))
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

// finish adds the remaining lines when abide stops.
func (l *siteLines) finish(now time.Time) {
	for _, s := range l.sites {
		s.due = [lineKinds]time.Time{}
	}
	l.pass(now.Add(2 * holdsOver))
}

// take returns the lines to write, once.
func (l *siteLines) take() []siteLine {
	lines := l.lines
	l.lines = nil
	return lines
}

// say adds a line if one of its kind is due, otherwise it counts the line as skipped.
func (l *siteLines) say(now time.Time, s *siteState, kind lineKind, line siteLine) {
	if s.due[kind].After(now) {
		s.skipped[kind]++
		return
	}
	s.due[kind] = now.Add(lineEvery)
	switch kind {
	case holdBegins, refusalBegins:
		s.due[kind+1] = time.Time{} // the end of what was said is said at once
		if n := s.skipped[kind]; n > 0 {
			line.text += fmt.Sprintf("; that has happened %s since the last such line", status.Number(n, "more time", "more times"))
		}
	case holdEnds:
		l.number++
		s.episodes, s.held, s.longest, s.number = 0, 0, 0, l.number
	case refusalEnds:
		s.refusals, s.shown = 0, 0
	}
	s.skipped[kind] = 0
	l.lines = append(l.lines, line)
}

// siteState is the state of a site for its log lines.
type siteState struct {
	holds    queue.SiteWaiting // as last seen
	holding  bool
	since    time.Time     // when that began
	seen     time.Time     // when a long hold was last seen
	causes   []string      // what the lines about it have named
	episodes int           // times that it held requests, since the last line that said so
	held     int           // requests held for longHold since the last such line
	longest  time.Duration // longest hold of one of these
	number   uint64        // of the line that will say so

	refusing              bool
	refusedAt, acceptedAt time.Time // when that began, and ended: the line may be written later
	until                 time.Time // no request of the refused scope is sent before
	refusals              int       // since the last line about the end of refusals
	shown                 int       // of these, refusals passed to a client

	due     [lineKinds]time.Time // no line of the kind before
	skipped [lineKinds]int       // lines of the kind that were postponed
}

// over tells whether the state can be forgotten without changing any line.
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

// begins is the line of a site that begins to hold requests.
func (s *siteState) begins(now time.Time) siteLine {
	h := &s.holds
	line := siteLine{fmt.Sprintf("%s: %s%s", h.Site, heldRequests(h), HeldUntil(now, h.Held, h.Blocker)), logrus.Fields{"site": h.Site}, nil}
	if h.Held > 1 {
		line.last = h.Last
	}
	if strings.Contains(line.text, ", limit: ") {
		line.fields["limit"] = h.Blocker.Limit
	}
	return line
}

// ends is the line of a site that holds requests no more.
func (s *siteState) ends(site string) siteLine {
	text := fmt.Sprintf("%s: no request is held any more", site)
	if s.episodes > 1 {
		text += fmt.Sprintf("; requests were held %s since the last such line", status.Number(s.episodes, "time", "times"))
	} else {
		text += ", after " + InSeconds(max(s.seen.Sub(s.since), s.longest))
	}
	text += fmt.Sprintf("; held for over a second: %s, the longest for %s", status.Number(s.held, "request", "requests"), InSeconds(s.longest))
	return siteLine{text, logrus.Fields{"site": site}, nil}
}

// accepts is the line of a site that does not refuse requests any more.
func (s *siteState) accepts(site string) siteLine {
	text := fmt.Sprintf("%s: the site accepts requests again", site)
	if s.skipped[refusalEnds] == 0 {
		text += ", after " + InSeconds(s.acceptedAt.Sub(s.refusedAt))
	} else {
		text += fmt.Sprintf("; it began to do so %s since the last such line", status.Number(s.skipped[refusalEnds]+1, "time", "times"))
	}
	text += fmt.Sprintf("; refusals: %d, of which clients saw %d", s.refusals, s.shown)
	return siteLine{text, logrus.Fields{"site": site}, nil}
}

// Refusal is an answer of a site that refused a request because of a limit.
type Refusal struct {
	Site   string
	Status int
	// Scope is "site", "backend", "route" or "token", as in refusals_total.
	Scope, Backend string
	Token          string    // label of the token that was refused, "" without one
	Until          time.Time // no request of that scope is sent before
	Why            string    // the header that gave the time, or another cause
	Again          bool      // the request is sent again
}

// describe is the line of a site that begins to refuse requests.
func (r *Refusal) describe(now time.Time) siteLine {
	how := fmt.Sprintf("status %d", r.Status)
	if r.Status == 0 {
		how = "it closes the connection"
	}
	who, fields := "site", logrus.Fields{"site": r.Site, "reason": r.Why}
	if r.Backend != "" {
		who, fields["backend"] = "backend "+r.Backend, r.Backend
	}
	text := fmt.Sprintf("%s: the %s refuses a request (%s)", r.Site, who, how)
	if r.Token != "" {
		text += " with the token " + r.Token
		fields["token"] = r.Token
	}
	what := "is sent to the site"
	switch r.Scope {
	case "backend":
		what = "is sent to this backend"
	case "token":
		what = "is sent with this token"
	case "route":
		what = "under the same limit is sent"
	}
	again := "the request is sent again"
	if until := Until(now, r.Until); until != "" {
		text, again = text+"; nothing "+what+until, again+" then"
	}
	text += " (" + r.Why + "); "
	if r.Again {
		return siteLine{text + again + ", the client does not see it", fields, nil}
	}
	return siteLine{text + "the client is given the refusal", fields, nil}
}

// SiteFailed is the cause of a cooldown by a breaker.
const SiteFailed = "it failed too often"

// heldRequests says how many requests are held, and whose.
func heldRequests(h *queue.SiteWaiting) string {
	verb, whose := "are", ""
	if h.Held == 1 {
		verb = "is"
	}
	switch {
	case h.Clients > 1:
		whose = fmt.Sprintf(" of %d clients", h.Clients)
	case h.Client != "":
		whose = " of " + h.Client
	}
	return status.Number(h.Held, "request", "requests") + whose + " " + verb + " held"
}

// Outdated tells whether a line about held requests is to be followed by another: it is a minute old, and either the end
// is over that it named (zero for none), or the hold has lasted twice as long as then.
func Outdated(now, since, said, end time.Time) bool {
	return now.Sub(said) >= lineEvery && (!end.IsZero() && !now.Before(end) || now.Sub(said) >= said.Sub(since))
}

// HeldUntil continues a text about n held requests: until when the first is held, and why.
func HeldUntil(now time.Time, n int, k queue.Blocker) string {
	text := Until(now, k.Until)
	switch {
	case k.Behind:
		text = " until those before it have gone"
	case k.Asking:
		text = " until it is known what is left"
	case k.Until.IsZero() && status.IsPause(k.Limit):
		text = " until the site is resumed"
	case k.Until.IsZero():
		text = " until another request is finished"
	case n > 1 && !status.IsPause(k.Limit) && text != "":
		text = ", the first" + text
	}
	why := ""
	if k.Why != "" {
		why = " (" + k.Why + ")"
	}
	switch name := status.LimitName(k.Limit); {
	case name != k.Limit || status.IsPause(k.Limit):
		return text + ": " + name + why
	case k.Why != "" && strings.HasPrefix(k.Limit+" ", "backend "):
		return text + ": the " + strings.Replace(k.Limit, " of ", " ", 1) + " is paused" + why
	}
	return text + ", limit: " + k.Limit + why
}

// WithLast is such a text with the time at which the last of the requests goes, if that is known and not that of the first.
func WithLast(text string, now, last time.Time) string {
	until := Until(now, last)
	at, _, _ := strings.Cut(until, " (in")
	if all := strings.Replace(text, ", the first"+at, at, 1); at != "" && all != text {
		return all
	}
	return text + strings.Replace(until, " until", "; the last goes at", 1)
}

// Until is " until" and a time of day, with the date if it is another day, and "" for a time that is not known, or over but for a moment.
func Until(now, at time.Time) string {
	if at.Sub(now) < 50*time.Millisecond {
		return ""
	}
	layout := "15:04:05"
	if at.Sub(now) > 12*time.Hour {
		layout = "2006-01-02 15:04:05"
	}
	up := at.Add(time.Second - 1).Truncate(time.Second) // it is not sent before at
	return " until " + up.In(now.Location()).Format(layout) + " (in " + InSeconds(at.Sub(now)) + ")"
}

// InSeconds formats a duration: 2.1s, 40s, 3m20s.
func InSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
