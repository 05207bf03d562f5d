package status

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// cells shows what is left of a limit, and when there is more.
func (a Announced) cells(now time.Time, site string) []string {
	name := site + a.Label()
	if notes := a.Notes(); notes != "" {
		name += "; " + notes
	}
	reset := "-"
	if a.Reset.After(now) {
		reset = "in " + Span(a.Reset.Sub(now))
	}
	return []string{name, a.LeftText(), reset}
}

// Token holds what people may know of a token. State is "ready", "cooling", "spent",
// "quarantined" or "disabled".
type Token struct {
	Label string `json:"label"`
	State string `json:"state"`
	// Until is the end of the state, and Why the source of that.
	Until time.Time `json:"until,omitzero"`
	Why   string    `json:"why,omitempty"`
	// DeniedBy is the only site that does not accept a quarantined token: it goes to others. "" is all.
	DeniedBy string `json:"denied_by,omitempty"`
	// Fingerprint tells secrets apart while the process runs.
	Fingerprint string   `json:"fingerprint"`
	Twins       []string `json:"twins,omitempty"` // others of the same account

	Uses     uint64 `json:"uses"`
	Refusals uint64 `json:"refusals"` // "too much"
	Denials  uint64 `json:"denials"`  // "who are you"
	// Accepted is the time of the last request that a site accepted, Throttled that of
	// the last one that a site refused; zero: never.
	Accepted  time.Time `json:"last_accepted,omitzero"`
	Throttled time.Time `json:"last_throttled,omitzero"`

	Routes []Paused    `json:"routes,omitempty"` // that are worse off than the token is
	Limits []Announced `json:"limits"`

	Written []Limit `json:"-"` // of the configuration, of which the token has its own
}

// Reason returns Why, with the site that has denied the token if others may accept it.
func (t *Token) Reason() string {
	if t.DeniedBy != "" {
		return t.Why + " by " + t.DeniedBy
	}
	return t.Why
}

// TokenWord returns the state of a token for people: "denied" for one that is in quarantine as a site does not accept it.
func TokenWord(state string) string { return strings.Replace(state, "quarantined", "denied", 1) }

// Away tells whether no request has the token until somebody or a later try brings it back.
func (t *Token) Away() bool { return t.State == "quarantined" || t.State == "disabled" }

// Denied tells whether sites do not accept the token, for the reason in Why.
func (t *Token) Denied() bool {
	return t.Why != "" && (t.State == "quarantined" || t.State == "ready")
}

// DeniedToken is a token that sites do not accept, and the end of the time for which it is put away.
type DeniedToken struct {
	Pool  string    `json:"pool"`
	Label string    `json:"label"`
	Why   string    `json:"reason"`
	Until time.Time `json:"until,omitzero"` // zero: it is still used
}

func (d DeniedToken) String() string {
	until := ""
	if !d.Until.IsZero() {
		until = d.Until.UTC().Format(", until 2006-01-02 15:04:05 UTC")
	}
	return fmt.Sprintf("%s of %s (%s%s)", d.Label, d.Pool, d.Why, until)
}

// Denied returns the tokens of the pool that sites do not accept.
func (p Pool) Denied() (list []DeniedToken) {
	for i := range p.Tokens {
		if t := &p.Tokens[i]; t.Denied() {
			list = append(list, DeniedToken{p.Name, t.Label, t.Reason(), t.Until.UTC()})
		}
	}
	return list
}

// Routes are those of a site that a limit is about, such as "GET /a and 2 more".
type Routes struct{ Site, Of string }

// TooLittle tells whether less is left of the limit than a request takes.
func (a Announced) TooLittle() bool { return a.Remaining > 0 && a.State == "spent" }

// exhausted are the limits of the token, written ones too, of which nothing, or too little, is left for now.
func (t *Token) exhausted(now time.Time) (list []Announced) {
	for _, l := range t.Limits {
		if (l.Remaining == 0 || l.TooLittle()) && l.Reset.After(now) {
			list = append(list, l)
		}
	}
	for _, l := range t.Written {
		if l.Left == 0 && l.Reset.After(now) {
			list = append(list, Announced{Site: l.Site, Title: l.Limit, Reset: l.Reset})
		}
	}
	return list
}

// usedUp returns for which routes nothing, or too little, is left of a limit of the token, and until when. It omits those
// of a site of which none can go.
func (t *Token) usedUp(now time.Time) map[Routes]time.Time {
	used := map[Routes]time.Time{}
	for _, l := range t.exhausted(now) {
		at := Routes{l.Site, l.Route}
		used[at] = Later(used[at], l.Reset)
	}
	maps.DeleteFunc(used, func(at Routes, _ time.Time) bool { return at.Of != "" && !used[Routes{at.Site, ""}].IsZero() })
	return used
}

// Partly returns when there is more for all routes, if nothing, or too little, is left for some, and zero otherwise.
func (t *Token) Partly(now time.Time) time.Time {
	return slices.MaxFunc(slices.AppendSeq([]time.Time{{}}, maps.Values(t.usedUp(now))), time.Time.Compare)
}

// UsedUp returns when there is more for the first of the routes, if nothing, or too little, is left for any, and zero
// otherwise. A limit that is not known yet has something left.
func (t *Token) UsedUp(routes map[Routes]bool, now time.Time) (first time.Time) {
	used := t.usedUp(now)
	for at := range routes {
		until := cmp.Or(used[at], used[Routes{at.Site, ""}])
		if until.IsZero() {
			return until
		}
		first = Earlier(first, until)
	}
	return first
}

// Paused is a route for which a token may not be used.
type Paused struct {
	Route string    `json:"route"`
	State string    `json:"state"`
	Until time.Time `json:"until,omitzero"`
	Why   string    `json:"why,omitempty"`
}

// Hidden is the state of a limit that the server does not announce, and that was found by
// refusals.
const Hidden = "hidden"

// Announced is a limit as a server has announced it, or as it was found.
type Announced struct {
	Site      string    `json:"site"`
	Route     string    `json:"route,omitempty"`
	Title     string    `json:"title,omitempty"`
	Limit     int64     `json:"limit"`          // -1: nobody knows
	Remaining int64     `json:"remaining"`      // -1: nobody knows
	Reset     time.Time `json:"reset,omitzero"` // when there is more
	Window    float64   `json:"window_seconds,omitempty"`
	State     string    `json:"state,omitempty"`
	Foreign   float64   `json:"foreign"`                     // the share that others use of it, 0 to 1
	AtRandom  float64   `json:"refused_at_random,omitempty"` // the share of requests that the site refuses whatever the rate is
	SoFar     bool      `json:"so_far,omitempty"`            // of a limit that was found, or a window that was measured: it is a first estimate
	Blocked   bool      `json:"blocked,omitempty"`           // of a limit that was found: the site refused everything for a while, so no higher rate is tried
	Before    bool      `json:"known_from_before,omitempty"` // it was learned before the start, and no request has asked for it since
}

func (t Token) Normalize() Token {
	t.Until, t.Accepted, t.Throttled = t.Until.UTC(), t.Accepted.UTC(), t.Throttled.UTC()
	t.Routes = slices.Clone(t.Routes)
	for i := range t.Routes {
		t.Routes[i].Until = t.Routes[i].Until.UTC()
	}
	t.Limits = announced(t.Limits)
	return t
}

// announced are limits by name, without those of which nothing is known: other tokens may have them.
func announced(list []Announced) []Announced {
	list = slices.DeleteFunc(slices.Clone(list), func(a Announced) bool {
		return a.Limit < 0 && a.Remaining < 0 && a.State == "unknown"
	})
	list = listed(list, MaxAnnounced, func(a, b Announced) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Title, b.Title))
	})
	for i := range list {
		item := &list[i]
		item.Reset = item.Reset.UTC()
		item.Foreign, item.Window = Finite(item.Foreign), Finite(item.Window)
	}
	return list
}

// Name returns the limit's name for people: "75 per 15m for GET /2/tweets/*".
func (a Announced) Name() string { return cmp.Or(a.Title, a.Route, "all requests") }

// HiddenTitle begins the title of a limit that the server does not announce.
const HiddenTitle = "a limit that the site does not announce"

// Label names the limit for people by what is known of it now: "about 20 in 1s for GET /a, not announced" by
// what was found of a limit that the server does not announce, or Name with the length of its windows where
// that was measured: "5 requests per about 5s (measured)".
func (a Announced) Label() string {
	if a.Noise() {
		return fmt.Sprintf("refusals at random, %.2g %% of the requests", 100*a.AtRandom)
	}
	if found := a.FoundText(); found != "" {
		return found + strings.TrimPrefix(a.Title, HiddenTitle) + ", not announced"
	}
	if a.Measured() {
		return a.Title + " per " + a.WindowText() + " (measured)"
	}
	return a.Name()
}

// Source says how the limit became known: all of that with its name, the source alone, and what was found that the
// server does not announce.
func (a Announced) Source() (text, source, found string) {
	const announced, byRefusals = "announced by the site", "found by refusals"
	switch {
	case a.Noise():
		return a.Label(), "refusals at random", a.Label()
	case a.State == Hidden:
		return strings.Replace("limit: "+a.Label(), "limit: "+HiddenTitle, HiddenTitle, 1) + ", " + byRefusals, byRefusals, a.FoundText()
	case a.Measured():
		found = fmt.Sprintf("%d in %s", a.Limit, a.WindowText())
	}
	return "limit: " + a.Label() + ", " + announced, announced, found
}

// Labels returns a function that puts the Label of a learned limit of a site in the place of its title, with which a text
// begins. It asks for the limits when the first text needs them.
func Labels(limits func() []Announced) func(site, text string) string {
	bySite := sync.OnceValue(func() map[string][]Announced { // there may be many sites, and many texts
		list, all := limits(), map[string][]Announced{}
		slices.SortStableFunc(list, func(a, b Announced) int {
			return cmp.Or(cmp.Compare(len(b.Title), len(a.Title)), cmp.Compare(len(b.FoundText()), len(a.FoundText())))
		})
		for _, a := range list {
			all[a.Site] = append(all[a.Site], a)
		}
		return all
	})
	return func(site, text string) string {
		if text == "" {
			return ""
		}
		for _, a := range bySite()[site] {
			if whose, begins := strings.CutPrefix(text, a.Title); begins && a.Title != "" {
				return a.Label() + whose
			}
		}
		return text
	}
}

// Noise tells whether refusals were found to come at random, so that there is no limit.
func (a Announced) Noise() bool { return a.State == Hidden && a.Limit <= 0 && a.AtRandom > 0 }

// Measured tells whether the server announces the limit, and not how long its windows are, which was measured.
func (a Announced) Measured() bool {
	return a.State != Hidden && a.Window > 0 && strings.HasSuffix(a.Title, fmt.Sprint(a.Limit, " requests"))
}

// WindowText is the length of windows that was measured: "about 5s", "about 5s so far" by a first estimate.
func (a Announced) WindowText() string {
	return "about " + Span(time.Duration(max(math.Round(a.Window), min(a.Window, 1))*float64(time.Second))) + a.soFar()
}

// FoundText says what was found of a limit that the server does not announce: "about 20 in 1s",
// "about 20 in 1s so far" by a first estimate, "5 at once"; "" if no limit was found, or the server announces it.
func (a Announced) FoundText() string {
	switch {
	case a.State != Hidden || a.Limit <= 0:
		return ""
	case a.Window > 0:
		return fmt.Sprintf("about %d in %s%s", a.Limit, Span(time.Duration(a.Window*float64(time.Second))), a.soFar())
	}
	return fmt.Sprintf("%d at once%s", a.Limit, a.soFar())
}

func (a Announced) soFar() string {
	if a.SoFar {
		return " so far"
	}
	return ""
}

// LeftText says how much of the limit is left, such as "40 of 75".
func (a Announced) LeftText() string {
	if a.State == Hidden && a.Remaining < 0 {
		return "-"
	}
	return cmp.Or(leftText(a.Remaining, a.Limit, Count), a.State, "not known")
}

// LeftShare is the part of the limit that is left, from 0 to 1; 2 if that is not known.
func (a Announced) LeftShare() float64 { return leftShare(a.Remaining, a.Limit) }

// Notes says how much of the limit others use, if that is enough to see, and that it is known from before.
func (a Announced) Notes() string {
	notes := ""
	if share := math.Round(100 * a.Foreign); share >= 1 {
		notes = fmt.Sprintf("others use %.0f %%", share)
	}
	if a.Before {
		notes = strings.TrimPrefix(notes+"; known from before", "; ")
	}
	return notes
}

// Account is the name of those who share the token's limits: the labels of its account.
func (t Token) Account() string {
	return strings.Join(slices.Sorted(slices.Values(append([]string{t.Label}, t.Twins...))), ", ")
}
