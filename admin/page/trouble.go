package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// trouble is something that is wrong, of one thing or of several for the same reason.
type trouble struct {
	Kind, Many string   // such as "token" and "tokens"
	Names      []string // of the things
	Of         string   // " of the pool api", "" for none
	Reason     string
	Until      string
	Tone       string // class: "bad", or "warm" for what works all the same
	Site       string // the site that a button resumes, "" for none
	Pool       string // of the tokens that a button enables, "" for none
}

// What names the things.
func (t trouble) What() string {
	if len(t.Names) > 1 {
		return status.Count(uint64(len(t.Names))) + " " + t.Many + t.Of
	}
	return strings.TrimSpace(t.Kind + " " + t.Names[0] + t.Of)
}

// Key tells rows apart: what is wrong for the same reason is one row.
func (t trouble) Key() string { return t.Kind + t.Of + t.Site + t.Reason }

// mostNames is the largest number of things that a trouble names.
const mostNames = 3

// Why is the reason, with the names of several things.
func (t trouble) Why() string {
	if len(t.Names) < 2 {
		return t.Reason
	}
	text := t.Reason + ": " + strings.Join(t.Names[:min(len(t.Names), mostNames)], ", ")
	if more := len(t.Names) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Labels are those of the tokens that a button enables: none, where a form would be too long for them.
func (t trouble) Labels() []string {
	if t.Pool == "" || len(t.Names) > status.MaxListed {
		return nil
	}
	return t.Names
}

// troubles collects what is wrong.
type troubles struct {
	list []trouble
	at   map[string]int // :: key → place in list
}

func (all *troubles) add(name string, t trouble) {
	i, there := all.at[t.Key()]
	if !there {
		t.Names, all.at[t.Key()] = []string{name}, len(all.list)
		all.list = append(all.list, t)
		return
	}
	same := &all.list[i]
	same.Names, same.Tone = append(same.Names, name), min(same.Tone, t.Tone)
}

// troublesOf lists what is wrong, what does not work at all first.
func troublesOf(f *Facts, now time.Time) []trouble {
	all := &troubles{at: map[string]int{}}
	for _, one := range f.Checks {
		switch {
		case !one.OK:
			all.add(one.Name, trouble{Many: "checks", Reason: cmp.Or(one.Detail, "not ready"), Tone: "bad"})
		case one.Degraded && !slices.ContainsFunc(f.Breakers, func(b status.Breaker) bool { return b.Site == one.Name && b.State == status.Failing }):
			all.add(one.Name, trouble{Many: "sites", Reason: "degraded: " + one.Detail, Tone: "warm"})
		}
	}
	for _, one := range f.Breakers {
		tone := "bad"
		if one.State == "half-open" || one.State == status.Failing && one.Backend != "" {
			tone = "warm"
		}
		all.add(one.Name(), trouble{Many: "sites", Reason: status.BreakerWord(one.State) + ": " + cmp.Or(one.Why, "it failed"), Until: strings.Trim(tries(one.Until, now)+", "+one.Began(), ", "), Tone: tone})
	}
	for i := range f.Tokens.Pools {
		all.pool(&f.Tokens.Pools[i], now)
	}
	for _, one := range f.Forecasts {
		if one.Long() && one.Left <= 0 {
			all.add(one.Of, trouble{Kind: one.Site, Many: "limits of " + one.Site, Reason: one.Limit + " is used up", Until: status.Ahead(one.Ends, now), Tone: "warm"})
		}
	}
	for _, one := range f.Jobs {
		if one.State == status.JobFailed {
			all.add(one.Name, trouble{Kind: "job", Many: "jobs", Reason: fmt.Sprintf("%d of %d units failed", one.Units.Failed, one.Units.Total), Tone: "warm"})
		}
	}
	if f.Unread != nil {
		if remedies := f.Unread.Remedies(); len(remedies) > 0 {
			all.add("", trouble{
				Kind: "https to " + status.Number(f.Unread.SiteCount, "site", "sites"), Tone: "warm",
				Reason: "passed unread, so limits of the requests inside were not seen. To have it read: " + strings.Join(remedies, "; "),
			})
		}
	}
	for _, site := range slices.Sorted(maps.Keys(f.Pauses)) {
		pause := f.Pauses[site]
		until := "until it is resumed"
		if !pause.Until.IsZero() {
			until = status.Ahead(pause.Until, now)
		}
		all.add(site, trouble{Reason: "paused " + status.Ago(pause.Since, now) + ": " + cmp.Or(pause.Reason, "no reason was given"), Until: until, Tone: "warm", Site: site})
	}
	slices.SortStableFunc(all.list, func(a, b trouble) int { return strings.Compare(a.Tone, b.Tone) })
	return all.list
}

// pool adds the tokens of a pool that sites do not accept, and the pool of which no token will
// go by itself.
func (all *troubles) pool(p *status.Pool, now time.Time) {
	of, away := " of "+p.Name, 0
	for i := range p.Tokens {
		t := &p.Tokens[i]
		if t.Away() {
			away++
		}
		denied := func(at, why string, until time.Time) {
			all.add(t.Label, trouble{Kind: "token", Many: "tokens", Of: of, Reason: "denied" + at + ": " + cmp.Or(why, "the site does not accept it"), Until: tries(until, now), Tone: "bad", Pool: p.Name})
		}
		if t.State == "quarantined" || t.Denied() {
			denied("", t.Why, t.Until)
		}
		for _, r := range t.Routes {
			if r.State == "quarantined" {
				denied(" for "+r.Route, r.Why, r.Until)
			}
		}
	}
	if away == p.Count && away > 0 {
		all.add(p.Name, trouble{Kind: "pool", Many: "pools", Reason: "none of its tokens can go: all are denied or disabled", Tone: "bad"})
	}
}

// tries says when something is tried again.
func tries(until, now time.Time) string {
	if at := status.Ahead(until, now); at != "" {
		return "tried again " + at
	}
	return ""
}
