package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// MaxLimits bounds the limits of a site in a list: each token or client may have its own.
const MaxLimits = 1000

// Site is a site as it is now.
type Site struct {
	Counts
	Lately
	Refusals   uint64  `json:"refusals"` // answers that refused a request because of a limit
	Limits     []Limit `json:"limits"`
	LimitCount int     `json:"limit_count"` // those that are not listed, too
	Set        bool    `json:"limits_set"`  // at run time, and not by the configuration
	Pool       string  `json:"-"`           // whose tokens its requests have, "" for none
	Held       int     `json:"held"`        // requests that wait
	// LongestWait is the time that the first waiting request has waited, 0 if none waits.
	LongestWait float64 `json:"longest_wait_seconds"`
	// LimitedBy names the limit that keeps most of the waiting requests, "" if none waits.
	LimitedBy string `json:"limited_by,omitempty"`
	// Paused is nil where the operator has not paused the site.
	Paused *Pause `json:"paused,omitempty"`
	// Breaker is its own: "closed", "failing", "half-open" or "open". Breakers are those of it and
	// its backends that are not closed.
	Breaker  string    `json:"breaker"`
	Breakers []Breaker `json:"breakers,omitempty"`
	// Loses tells whether clients lose many of its requests now.
	Loses bool `json:"loses_requests,omitempty"`
	// Recorded counts the site's traffic of the last 30 days, before a restart too.
	Recorded *Recorded `json:"last_30_days,omitempty"`
	// Unread is nil where no https to the site has passed unread.
	Unread *SiteUnread `json:"https_unread,omitempty"`
}

// Normalize has its bounds and no null list.
func (s *Site) Normalize() Site {
	site := *s
	site.Breaker = cmp.Or(site.Breaker, "closed")
	site.LimitCount = len(site.Limits)
	site.Limits = append([]Limit{}, site.Limits[:min(len(site.Limits), MaxLimits)]...)
	return site
}

// Word is the state of the site for people: "ok" where nothing is wrong.
func (s *Site) Word() string {
	switch word := BreakerWord(s.Breaker); {
	case s.Paused != nil:
		return "paused"
	case word == "ok" && s.Loses:
		return "loses requests"
	case word == "ok" && len(s.Breakers) > 0:
		return Number(len(s.Breakers), "backend fails", "backends fail")
	default:
		return word
	}
}

// Recorded counts the traffic of a site that was recorded in the last 30 days.
type Recorded struct {
	Requests int64 `json:"requests"`
	In       int64 `json:"bytes_received"`
	Out      int64 `json:"bytes_sent"`
}

// Lately has what was counted of a site in the last minute and seconds.
type Lately struct {
	LastMinute uint64 `json:"requests_last_minute"`
	Rate       Rate   `json:"rate,omitzero"`
}

// Rate has what happened in each of the last 5 seconds on average. Requests went to sites and came back: Own counts
// those that abide refused itself, and Left those that clients gave up.
type Rate struct {
	Requests float64 `json:"requests_per_second"`
	Own      float64 `json:"own_answers_per_second,omitempty"`
	Left     float64 `json:"given_up_per_second,omitempty"`
	In       float64 `json:"bytes_received_per_second"`
	Out      float64 `json:"bytes_sent_per_second"`
}

type Counts struct {
	Name     string `json:"site,omitempty"`
	Requests uint64 `json:"requests"`
	In       uint64 `json:"bytes_received"` // from the site
	Out      uint64 `json:"bytes_sent"`     // to the site
}

func (s Counts) Bytes() uint64 { return s.In + s.Out }

// Add adds the counts of another site.
func (s *Counts) Add(other Counts) {
	s.Requests, s.In, s.Out = s.Requests+other.Requests, s.In+other.In, s.Out+other.Out
}

// Since is the growth since earlier counts, of each number at least 0.
func (s Counts) Since(before Counts) Counts {
	return Counts{s.Name, s.Requests - min(s.Requests, before.Requests), s.In - min(s.In, before.In), s.Out - min(s.Out, before.Out)}
}

// SiteList is the answer of /api/v1/sites. More tells that not all are listed.
type SiteList struct {
	Sites []Site `json:"sites"`
	Count int    `json:"count"`
	More  bool   `json:"more"`
}

// Describe writes a line for each site.
func (l SiteList) Describe(w io.Writer, now time.Time) {
	if len(l.Sites) == 0 {
		say(w, "no request has come yet")
		return
	}
	t := Table{Numbers: []int{1, 2, 3, 4, 5}}
	t.Add("SITE", "REQUESTS", "LAST MINUTE", "RECEIVED", "SENT", "WAIT", "MOST WAIT FOR", "STATE")
	for _, one := range l.Sites {
		state := one.Word()
		for _, b := range one.Breakers {
			if b.Backend == "" && b.Until.After(now) {
				state += ", tries " + In(b.Until, now)
			}
		}
		t.Add(one.Name, fmt.Sprint(one.Requests), fmt.Sprint(one.LastMinute), Size(one.In), Size(one.Out), fmt.Sprint(one.Held), cmp.Or(one.LimitedBy, "-"), state)
	}
	t.Write(w)
	rest(w, l.Count-len(l.Sites), "")
}

// DescribeSites writes the sites with the most bytes, as text.
func (s Process) DescribeSites(w io.Writer) {
	t := Table{Numbers: []int{1, 2, 3}}
	t.Add("SITE", "REQUESTS", "RECEIVED", "SENT")
	for _, one := range s.Sites[:min(len(s.Sites), mostDescribed)] {
		t.Add(one.Name, fmt.Sprint(one.Requests), Size(one.In), Size(one.Out))
	}
	t.below(w, "sites", s.SiteCount-min(len(s.Sites), mostDescribed), "; abide sites lists them")
}

// MaxPauseReason is the longest reason of a pause, in bytes.
const MaxPauseReason = 200

// Pause is a pause of a site: the operator lets no request go to the site.
type Pause struct {
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: until the site is resumed
}

// Over tells whether the pause has ended by itself.
func (p *Pause) Over(now time.Time) bool { return !p.Until.IsZero() && !p.Until.After(now) }

// pauseTitle begins the title of each pause.
const pauseTitle = "paused by the operator"

// IsPause tells whether a limit that holds requests back is a pause, by the limit's title.
func IsPause(limit string) bool { return strings.HasPrefix(limit, pauseTitle) }

// Title is the pause as what holds requests back.
func (p *Pause) Title() string {
	title := pauseTitle
	if !p.Until.IsZero() {
		title += " until " + p.Until.UTC().Format(time.RFC3339)
	}
	if p.Reason != "" {
		title += ": " + p.Reason
	}
	return title
}

// Past returns the title of a limit that has held requests: a pause may have ended before its time.
func Past(limit string) string {
	if rest, found := strings.CutPrefix(limit, pauseTitle+" until "); found {
		return pauseTitle + rest[min(len("2006-01-02T15:04:05Z"), len(rest)):]
	}
	return limit
}

// PauseAsk is the body of a request for a pause. Both may be missing.
type PauseAsk struct {
	Reason string `json:"reason,omitempty"`
	For    string `json:"for,omitempty"` // how long, such as 2h; "": until the site is resumed
}

// SitePause is the API's answer about the pause of a site.
type SitePause struct {
	Site   string `json:"site"`
	Paused bool   `json:"paused"`
	*Pause
	// Warning says that no such site was seen, "" if it was.
	Warning string `json:"warning,omitempty"`
}

// MaxTraffic bounds the steps of all sites together in a list.
const MaxTraffic = 100_000

// Traffic counts what went from and to a site from Start on, for one step.
type Traffic struct {
	Site     string    `json:"site"`
	Start    time.Time `json:"start"`
	In       int64     `json:"bytes_received"` // from the site
	Out      int64     `json:"bytes_sent"`     // to the site
	Requests int64     `json:"requests"`
}

// TrafficList is the answer of /api/v1/bandwidth. More tells that not all is listed.
type TrafficList struct {
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Step    string    `json:"step"`
	Traffic []Traffic `json:"traffic"`
	More    bool      `json:"more"`
}

// Normalize has its bound, an order, no null list, and times in UTC.
func (l *TrafficList) Normalize() {
	l.More = len(l.Traffic) > MaxTraffic
	l.Traffic = listed(l.Traffic, MaxTraffic, func(a, b Traffic) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Site, b.Site))
	})
	for i := range l.Traffic {
		l.Traffic[i].Start = l.Traffic[i].Start.UTC()
	}
}

// Unread is https whose requests nobody read, so that limits were not seen. Only
// connections can be counted, not the requests inside.
type Unread struct {
	Connections uint64 `json:"connections"`
	// Sites are those with the most connections, at most MaxListed.
	Sites     []SiteUnread `json:"sites,omitempty"`
	SiteCount int          `json:"site_count"`
}

// SiteUnread is the unread https of one site.
type SiteUnread struct {
	Site        string         `json:"site"`
	Connections uint64         `json:"connections"`
	Reasons     []UnreadReason `json:"reasons"`
}

// UnreadReason is why https passed unread: auto, unlisted, none, excluded, refused or
// constrained. Remedy says what to do so that it is read, "" where it is meant to pass
// unread.
type UnreadReason struct {
	Reason      string `json:"reason"`
	Connections uint64 `json:"connections"`
	Remedy      string `json:"remedy,omitempty"`
}

// whyUnread are the reasons in words.
var whyUnread = map[string]string{
	"auto":        "intercept: auto, and no rule needs its requests",
	"unlisted":    "intercept does not list it",
	"none":        "intercept: none",
	"excluded":    "its rule says learn: false",
	"refused":     "the client did not accept abide's certificate",
	"constrained": "ca.cert does not permit it",
}

// Why is the reason in words.
func (r UnreadReason) Why() string { return cmp.Or(whyUnread[r.Reason], r.Reason) }

// Remedies lists what to do, each once, in the order of the sites.
func (u *Unread) Remedies() []string {
	var list []string
	for _, site := range u.Sites {
		for _, one := range site.Reasons {
			if one.Remedy != "" && !slices.Contains(list, one.Remedy) {
				list = append(list, one.Remedy)
			}
		}
	}
	return list
}

// DescribeUnread writes to which sites https passed unread, and why.
func (s Process) DescribeUnread(w io.Writer) {
	if s.Unread == nil {
		return
	}
	heading(w, Number(int(s.Unread.Connections), "https connection", "https connections")+" passed unread; limits of the requests inside are not seen")
	t := Table{Numbers: []int{1}}
	t.Add("SITE", "CONNECTIONS", "WHY")
	for _, site := range s.Unread.Sites[:min(len(s.Unread.Sites), mostDescribed)] {
		for _, one := range site.Reasons {
			t.Add(site.Site, fmt.Sprint(one.Connections), one.Why())
		}
	}
	t.Write(w)
	if more := s.Unread.SiteCount - min(len(s.Unread.Sites), mostDescribed); more > 0 {
		say(w, "and %s", Number(more, "other site", "other sites"))
	}
}
