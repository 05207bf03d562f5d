package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Trouble is something that is wrong, of one thing or of several for the same reason.
type Trouble struct {
	Kind, Many string   // such as "token" and "tokens"
	Names      []string // of the things
	Sites      []string // of each of them, "" for none
	Of         string   // " of the pool api", "" for none
	Reason     string
	Loss       string // what clients lose by it, which changes while it lasts; "" for nothing that is known
	Until      string
	Tone       string // class: "bad", or "warm" for what works all the same
	Site       string // the site that a button resumes, "" for none
	Pool       string // of the tokens that a button enables, "" for none

	at          string    // the site of the first of the things, "" for none
	verb        string    // what happens to the first of the things at next, such as "tried again "
	next, since time.Time // the first of such times; zero: none is known
	answered    uint64    // requests that abide answered itself instead of asking the things
}

// What names the things.
func (t Trouble) What() string {
	if len(t.Names) == 1 {
		return strings.TrimSpace(t.Kind + " " + t.Names[0] + t.Of)
	}
	return Count(uint64(len(t.Names))) + " " + t.Many + t.Of
}

// Key tells rows apart: what is wrong for the same reason is one row.
func (t Trouble) Key() string { return t.Kind + t.Many + t.Of + t.Site + t.Reason }

// Why is the reason, with the names of several things.
func (t Trouble) Why() string {
	if len(t.Names) < 2 {
		return t.Reason + t.Loss
	}
	return t.Reason + t.Loss + ": " + FirstOf(t.Names, 3)
}

// String describes the trouble in a line.
func (t Trouble) String() string {
	return strings.TrimSuffix(t.What()+": "+t.Why()+" ("+t.Until+")", " ()")
}

// Tried are the tokens, or the sites that are not asked for a while, which a button has tried at once: none, where a form
// would be too long for them.
func (t Trouble) Tried() []string {
	names := t.Names
	if t.Pool == "" {
		names = t.Sites
	}
	if t.verb != tried || t.Pool == "" && t.next.IsZero() || len(names) > MaxListed {
		return nil
	}
	return names
}

// tried is the verb of what abide asks again.
const tried = "tried again "

// LongPause is the shortest rest of a pause after refusals which is told of as wrong: shorter ones are usual.
const LongPause = 2 * time.Minute

// troubles collects what is wrong.
type troubles struct {
	list []Trouble
	at   map[string]int // :: key → place in list
	now  time.Time
}

func (all *troubles) add(name string, t Trouble) {
	if !t.next.After(all.now) {
		t.next = time.Time{}
	}
	i, there := all.at[t.Key()]
	if !there {
		t.Names, t.Sites, all.at[t.Key()] = []string{name}, []string{t.at}, len(all.list)
		all.list = append(all.list, t)
		return
	}
	same := &all.list[i]
	same.Names, same.Sites, same.Tone = append(same.Names, name), append(same.Sites, t.at), min(same.Tone, t.Tone)
	same.next, same.since, same.answered = Earlier(same.next, t.next), Earlier(same.since, t.since), same.answered+t.answered
}

// until says what is next, and since when it is so: of several things, those of the first.
func (t *Trouble) until(started, now time.Time) string {
	first := ""
	if len(t.Names) > 1 {
		first = "the first "
	}
	var parts []string
	if !t.next.IsZero() {
		parts = append(parts, first+t.verb+In(t.next, now))
	}
	if since := Since(t.since, now); since != "" {
		if t.since.Sub(started) < time.Minute { // it may have been so before the start
			since = strings.Replace(since, "since", "since at least", 1)
		}
		parts = append(parts, first+since)
	}
	return cmp.Or(strings.Join(parts, ", "), t.Until)
}

// Troubles lists what is wrong, that of abide itself first, then what does not work at all.
func (s Process) Troubles(tokens Tokens, forecasts []Forecast, jobs []Job, advised AdviceList, now time.Time) []Trouble {
	all := &troubles{at: map[string]int{}, now: now}
	for _, one := range s.Checks {
		if one.Name == Draining {
			one.Name = "abide"
		}
		switch {
		case !one.OK:
			all.add(one.Name, Trouble{Many: "checks", Reason: cmp.Or(one.Detail, "not ready"), Tone: "bad"})
		case one.Degraded:
			all.add(one.Name, Trouble{Many: "checks", Reason: one.Detail, Tone: "warm"})
		}
	}
	first, waits, advice := len(all.list), cmp.Or(s.Waiting, &Waits{}).List, advised.Advice
	for _, one := range s.Breakers {
		tone, many := "bad", "sites"
		if one.Backend != "" {
			if many = "backends"; one.State == Failing {
				tone = "warm"
			}
		}
		why := cmp.Or(one.Why, "it failed")
		if strings.HasPrefix(why, "it answers 403") {
			why += ", so it may block this crawler"
		}
		next := one.Until
		if i := slices.IndexFunc(waits, func(w Wait) bool { return w.Site == one.Site && w.Why != "" }); i >= 0 {
			next = cmp.Or(next, waits[i].Until) // the end of the pause for which its requests wait
		}
		// A trial is over in a moment, so its row is that of a site that is left alone.
		state := BreakerWord(strings.TrimPrefix(one.State, "half-"))
		trouble := Trouble{Many: many, Reason: state + ": " + why, Tone: tone, at: one.Site, verb: tried, next: next, since: one.Since}
		for _, c := range s.Codes[one.Site] {
			if one.Backend == "" && strings.HasPrefix(c.Reason, ByAbide) {
				trouble.answered += c.Answers
			}
		}
		all.add(one.Name(), trouble)
	}
	for _, one := range s.Cooldowns {
		if !slices.ContainsFunc(s.Breakers, func(b Breaker) bool { return b.Site == one.Site }) {
			all.add(one.Site, Trouble{Many: "sites", Reason: one.Text(), verb: "requests go again ", next: one.Until, Tone: "warm", at: one.Site})
		}
	}
	told := map[string]bool{} // what is in the row of the limit or pause that causes it
	lost := func(site, because string) (loss, tone string) {
		i := slices.IndexFunc(advice, func(a Advice) bool { return a.Loses() && a.Site == site && len(a.Others) == 0 && a.Because == because })
		if i < 0 {
			return "", "warm"
		}
		told[advice[i].Text] = true
		return "; " + advice[i].said(), "bad"
	}
	for _, one := range forecasts {
		if one.Long() && one.Left <= 0 {
			loss, tone := lost(one.Site, one.Limit)
			all.add(one.Of, Trouble{Kind: one.Site, Many: "limits of " + one.Site, Reason: one.Limit + " is used up", Loss: loss, verb: "has more ", next: one.Ends, Tone: tone, at: one.Site})
		}
	}
	for _, one := range s.Paused {
		loss, tone := lost(one.Site, ByPause)
		all.add(one.Site, Trouble{Reason: "paused " + Ago(one.Since, now) + ": " + cmp.Or(one.Reason, "no reason was given"), Loss: loss, Until: "until it is resumed", verb: "is resumed ", next: one.Until, Tone: tone, Site: one.Site, at: one.Site})
	}
	for _, one := range advice {
		for _, site := range append([]string{one.Site}, one.Others...) {
			if one.Loses() && !told[one.Text] {
				all.add(site, Trouble{Many: "sites", Reason: one.said() + " " + one.Change, Until: Since(advised.Since, now), Tone: "bad", at: site})
			}
		}
	}
	for i := range tokens.Pools {
		all.pool(&tokens.Pools[i])
	}
	for _, one := range jobs {
		if one.State == JobFailed {
			all.add(one.Name, Trouble{Kind: "job", Many: "jobs", Reason: fmt.Sprintf("%d of %d units failed", one.Units.Failed, one.Units.Total), Tone: "warm"})
		}
	}
	if s.Unread != nil {
		if remedies := s.Unread.Remedies(); len(remedies) > 0 {
			all.add("", Trouble{
				Kind: "https to " + Number(s.Unread.SiteCount, "site", "sites"), Tone: "warm",
				Reason: "passed unread, so limits of the requests inside were not seen. To have it read: " + strings.Join(remedies, "; "),
			})
		}
	}
	for i := range all.list {
		trouble := &all.list[i]
		trouble.Until = trouble.until(s.Started, now)
		if trouble.answered > 0 {
			trouble.Loss = fmt.Sprintf("; abide itself answered %s since the start", Number(int(trouble.answered), "request", "requests"))
		}
	}
	slices.SortStableFunc(all.list[first:], func(a, b Trouble) int { return strings.Compare(a.Tone, b.Tone) })
	return all.list
}

// pool adds the tokens of a pool that sites do not accept, and the pool of which no token will
// go by itself.
func (all *troubles) pool(p *Pool) {
	of, away := " of "+p.Name, 0
	for i := range p.Tokens {
		t := &p.Tokens[i]
		if t.Away() {
			away++
		}
		denied := func(at, why string, until time.Time) {
			all.add(t.Label, Trouble{Kind: "token", Many: "tokens", Of: of, Reason: "denied" + at + ": " + cmp.Or(why, "the site does not accept it"), Tone: "bad", Pool: p.Name, verb: tried, next: until})
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
		all.add(p.Name, Trouble{Kind: "pool", Many: "pools", Reason: "none of its tokens can go: all are denied or disabled", Tone: "bad"})
	}
}
