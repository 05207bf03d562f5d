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
	maps.DeleteFunc(l.sites, func(_ string, s *siteState) bool { return s.holds.over(now) && s.refuses.over(now) })
}

// waiting takes the requests that wait at each site. It is called about once a second, and pass after it.
func (l *siteLines) waiting(now time.Time, all []queue.SiteWaiting) {
	for _, one := range all {
		if now.Sub(one.Since) < longHold {
			continue
		}
		s := l.state(now, one.Site)
		if s == nil {
			continue
		}
		cause := one.Blocker.Limit + ": " + one.Blocker.Why
		began := s.holds.begin(one.Since)
		s.holds.last, s.held = now, one
		if began {
			s.causes, s.unnamed = nil, false
		} else if slices.Contains(s.causes, cause) || len(s.causes) >= mostCauses || one.Blocker.Behind || one.Blocker.Asking {
			continue
		}
		s.causes, s.unnamed = append(s.causes, cause), true
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
			s.requests++
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
	begins = s.refuses.begin(now)
	if s.refuses.tells(now, false) {
		l.lines = append(l.lines, r.describe(now))
	}
	return begins
}

// accepted records an answer that is no refusal, with the time its request was sent. It
// tells whether the site stops refusing.
func (l *siteLines) accepted(now time.Time, site string, sent time.Time) (ends bool) {
	s := l.sites[site]
	if s == nil || !s.refuses.on || sent.Before(s.until) {
		return false
	}
	s.refuses.on, s.refuses.last = false, now
	l.accepts(now, site, s)
	return true
}

// pass advances the time: holds end, and postponed lines become due. It returns how many
// sites stop refusing because they got no requests for long.
func (l *siteLines) pass(now time.Time) (forgotten int) {
	for name, s := range l.sites {
		s.holds.on = s.holds.on && now.Sub(s.holds.last) <= holdsOver
		if s.holds.on && s.holds.last.Equal(now) && s.holds.tells(now, s.unnamed || Outdated(now, s.holds.since, s.holds.said, time.Time{})) {
			s.unnamed = false
			l.lines = append(l.lines, s.begins(now))
		}
		if s.holds.endTold(now) {
			l.lines = append(l.lines, s.ends(name))
			l.number++
			s.requests, s.longest, s.number = 0, 0, l.number
		}
		if s.refuses.on && now.Sub(s.until) > refusalForgotten {
			s.refuses.on, s.refuses.times, s.refusals, s.shown = false, 0, 0, 0
			forgotten++
		}
		l.accepts(now, name, s)
	}
	l.tidy(now)
	return forgotten
}

// finish adds the remaining lines when abide stops.
func (l *siteLines) finish(now time.Time) { l.pass(now.Add(2 * lineEvery)) }

// take returns the lines to write, once.
func (l *siteLines) take() []siteLine {
	lines := l.lines
	l.lines = nil
	return lines
}

// episode is a time in which a site holds requests, or refuses them. A line about its begin is written at
// most once in lineEvery. The line about its end follows that of the begin; the ends of episodes without a line
// have one together, with that of the next episode, or when there is none for lineEvery.
type episode struct {
	on    bool
	since time.Time // when it began
	last  time.Time // when it was seen last, or ended
	times int       // that it began, since the last line about an end
	said  time.Time // when the last line about a begin was written
	told  bool      // there is such a line about this episode
}

// begin reports whether it begins: it does unless it is on.
func (e *episode) begin(since time.Time) bool {
	if e.on {
		return false
	}
	e.on, e.since, e.told = true, since, false
	e.times++
	return true
}

// tells reports whether a line about the begin is written now. again: there is more to say than in the last.
func (e *episode) tells(now time.Time, again bool) bool {
	if e.told && !again || now.Sub(e.said) < lineEvery {
		return false
	}
	e.said, e.told = now, true
	return true
}

// endTold reports whether a line about the end is written now. The line says the times.
func (e *episode) endTold(now time.Time) bool {
	return !e.on && e.times > 0 && (e.told || now.Sub(e.last) >= lineEvery)
}

// over reports whether the episode can be forgotten without changing any line.
func (e *episode) over(now time.Time) bool {
	return !e.on && e.times == 0 && now.Sub(e.said) >= lineEvery
}

// siteState is the state of a site for its log lines.
type siteState struct {
	holds    episode
	held     queue.SiteWaiting // as last seen
	causes   []string          // of the hold
	unnamed  bool              // no line has named the last of these
	requests int               // held for longHold, since the last line about the end of holds
	longest  time.Duration     // longest hold of one of these
	number   uint64            // of the line that will say so

	refuses  episode
	until    time.Time // no request of the refused scope is sent before
	refusals int       // since the last line about the end of refusals
	shown    int       // of these, refusals passed to a client
}

// begins is the line of a site that begins to hold requests.
func (s *siteState) begins(now time.Time) siteLine {
	h := &s.held
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
	if s.holds.times > 1 {
		text += fmt.Sprintf("; requests were held %d times since the last such line", s.holds.times)
	} else {
		text += ", after " + InSeconds(max(s.holds.last.Sub(s.holds.since), s.longest))
	}
	s.holds.times = 0
	text += fmt.Sprintf("; held for over a second: %s, the longest for %s", status.Number(s.requests, "request", "requests"), InSeconds(s.longest))
	return siteLine{text, logrus.Fields{"site": site}, nil}
}

// accepts adds the line of a site that does not refuse requests any more, if it is due.
func (l *siteLines) accepts(now time.Time, site string, s *siteState) {
	if !s.refuses.endTold(now) {
		return
	}
	text := fmt.Sprintf("%s: the site accepts requests again", site)
	if s.refuses.times > 1 {
		text += fmt.Sprintf("; it began to do so %d times since the last such line", s.refuses.times)
	} else {
		text += ", after " + InSeconds(s.refuses.last.Sub(s.refuses.since))
	}
	text += fmt.Sprintf("; refusals: %d, of which clients saw %d", s.refusals, s.shown)
	l.lines = append(l.lines, siteLine{text, logrus.Fields{"site": site}, nil})
	s.refuses.times, s.refusals, s.shown = 0, 0, 0
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
	again := "the request is sent again"
	if until := Until(now, r.Until); until != "" {
		text, again = text+"; nothing is sent for this "+r.Scope+until, again+" then"
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
