package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// MaxTokens bounds the tokens of a pool in a list, MaxAnnounced the limits of one token, or of
// requests without a token.
const (
	MaxTokens    = 10_000
	MaxAnnounced = 1000
)

// Tokens are the pools, and the limits that servers announce to requests without a
// token. No secret is in any of it.
type Tokens struct {
	Pools  []Pool      `json:"pools"`
	Limits []Announced `json:"limits"`
}

// Normalize has no null lists, a bound, an order, and its times in UTC.
func (t Tokens) Normalize() Tokens {
	pools := listed(t.Pools, len(t.Pools), func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	for i, p := range pools {
		pools[i] = p.Normalize()
	}
	return Tokens{pools, announced(t.Limits)}
}

// Describe writes each pool as a table, for people.
func (t Tokens) Describe(w io.Writer, now time.Time) {
	for _, p := range t.Pools {
		p.describe(w, now)
	}
	rows := Table{}
	rows.Add("SITE", "LIMIT", "LEFT", "RESETS")
	scarce := ScarcestFirst(t.Limits)
	for _, one := range scarce[:min(len(scarce), mostTabled)] {
		rows.Add(append([]string{one.Site}, one.cells(now, "")...)...)
	}
	rows.below(w, "limits learned without a token", len(scarce)-mostTabled, ", of which more is left")
}

func (t Tokens) Find(name string) *Pool {
	i := slices.IndexFunc(t.Pools, func(p Pool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Pools[i]
}

// Pool is the tokens of one name. The listener says how many there are.
type Pool struct {
	Name  string `json:"pool"`
	Ready int    `json:"ready"`
	Count int    `json:"count"` // those that are not listed, too
	// Before tells that limits of its sites were learned before this start.
	Before bool    `json:"known_from_before,omitempty"`
	Tokens []Token `json:"tokens"`
}

func (p Pool) Normalize() Pool {
	p.Count, p.Tokens = len(p.Tokens), listed(p.Tokens, MaxTokens, func(a, b Token) int { return cmp.Compare(a.Label, b.Label) })
	for i, one := range p.Tokens {
		p.Tokens[i] = one.Normalize()
	}
	return p
}

// Can says how many tokens can go now, and when the next can if none can. Where limits of routes are used
// up, it says so for the routes where the fewest can go: others may have limits of their own.
func (p Pool) Can(now time.Time) string {
	type use struct {
		n    int // ready tokens
		next time.Time
	}
	sooner := func(a, b time.Time) time.Time {
		if b.After(now) {
			return Earlier(a, b)
		}
		return a
	}
	routes, resting := map[Routes]use{}, time.Time{}
	for _, t := range p.Tokens {
		used := t.usedUp(now)
		if t.State != "ready" && (t.State != "spent" || len(used) == 0) {
			resting = sooner(resting, t.Until)
			continue
		}
		for at, until := range used {
			u := routes[at]
			if u.next = sooner(u.next, until); t.State == "ready" {
				u.n++
			}
			routes[at] = u
		}
	}
	fewest, next, where := p.Ready, resting, []string{}
	for at, u := range routes {
		if p.Sites() > 1 {
			at.Of = strings.TrimSpace(at.Site + " " + at.Of)
		}
		switch n := p.Ready - u.n; {
		case n < fewest || len(where) == 0:
			fewest, next, where = n, sooner(resting, u.next), []string{at.Of}
		case n == fewest:
			next, where = sooner(next, u.next), append(where, at.Of)
		}
	}
	text := fmt.Sprintf("%d of %s can go now", fewest, Number(p.Count, "token", "tokens"))
	if slices.Sort(where); len(where) > 0 && where[0] != "" {
		text += " for " + strings.Join(where[:min(len(where), 3)], ", ")
	}
	if fewest == 0 && !next.IsZero() {
		text += ", the next " + In(next, now)
	}
	return text
}

// mostTabled is the number of rows up to which a pool is described with one for each limit of each token.
const mostTabled = 10

func (p Pool) describe(w io.Writer, now time.Time) {
	say(w, "")
	say(w, "pool %s: %s", p.Name, p.Can(now))
	if len(p.Tokens) == 0 {
		return
	}
	say(w, "")
	n := 0
	for _, one := range p.Tokens {
		n += max(len(one.Limits)+len(one.Routes), 1)
	}
	if n > mostTabled {
		for _, one := range p.Groups(now) {
			say(w, "%s", strings.TrimSuffix(one.Tokens()+": "+one.Why(now), ": "))
		}
		say(w, "")
		say(w, "abide status --json lists each token")
		p.describeAccounts(w)
		return
	}
	rows, several := Table{Numbers: []int{2, 3, 4}}, p.Sites() > 1
	rows.Add("TOKEN", "STATE", "USES", "REFUSED", "DENIED", "LIMIT", "LEFT", "RESETS")
	for _, one := range p.Tokens {
		first := []string{one.Label, standing(one.State, one.Until, one.Reason(), now), fmt.Sprint(one.Uses), fmt.Sprint(one.Refusals), fmt.Sprint(one.Denials)}
		var lines [][]string
		for _, limit := range one.Limits {
			site := ""
			if several {
				site = limit.Site + ": "
			}
			lines = append(lines, limit.cells(now, site))
		}
		for _, route := range one.Routes {
			lines = append(lines, []string{route.Route, "-", standing(route.State, route.Until, route.Why, now)})
		}
		switch {
		case one.Away():
			lines = [][]string{{"-", "-", "-"}} // none of its limits counts until it is back
		case len(lines) == 0:
			lines = [][]string{{"nothing learned yet", "-", "-"}}
		}
		for i, line := range lines {
			if i > 0 {
				first = make([]string, len(first))
			}
			rows.Add(append(first, line...)...)
		}
	}
	rows.Write(w)
	p.describeAccounts(w)
}

// describeAccounts writes which tokens are of one account, or may be.
func (p Pool) describeAccounts(w io.Writer) {
	var twins []string
	for _, one := range p.Tokens {
		if len(one.Twins) > 0 {
			twins = append(twins, "one account: "+one.Account())
		}
	}
	slices.Sort(twins)
	twins = slices.Compact(twins)
	for _, one := range p.Suspects() {
		twins = append(twins, "perhaps one account, as their counts fall together: "+strings.Join(one, ", ")+`; "account" in the pool says so`)
	}
	if len(twins) > 0 {
		say(w, "")
	}
	for _, one := range twins {
		say(w, "%s", one)
	}
}

// standing describes the state of a token: "cooling for 3m12s (Retry-After)".
func standing(state string, until time.Time, why string, now time.Time) string {
	state = TokenWord(state)
	if until.After(now) {
		state += " for " + Span(until.Sub(now))
	}
	if why != "" {
		state += " (" + why + ")"
	}
	return state
}

func (p Pool) Find(label string) *Token {
	i := slices.IndexFunc(p.Tokens, func(t Token) bool { return t.Label == label })
	if i < 0 {
		return nil
	}
	return &p.Tokens[i]
}

// Sites counts the sites that have announced something to tokens of the pool.
func (p Pool) Sites() int {
	seen := map[string]bool{}
	for _, t := range p.Tokens {
		for _, one := range t.Limits {
			seen[one.Site] = true
		}
	}
	return len(seen)
}

const (
	// suspiciousShare is the part of a limit that others seem to use of two tokens before
	// these are shown as perhaps one account.
	suspiciousShare = 0.2
	// sameEnd bounds the difference between the ends of one window of two tokens.
	sameEnd = 2 * time.Second
)

// Suspects are lists of labels of tokens that may be of one account though the pool does
// not say so: others seem to use a limit of each, and the windows end together.
func (p Pool) Suspects() [][]string {
	type use struct {
		limit, label string
		reset        time.Time
	}
	var all []use
	for _, t := range p.Tokens {
		for _, l := range t.Limits {
			if l.Foreign >= suspiciousShare && !l.Reset.IsZero() && len(t.Twins) == 0 {
				all = append(all, use{l.Site + " " + l.Name(), t.Label, l.Reset})
			}
		}
	}
	slices.SortFunc(all, func(a, b use) int {
		return cmp.Or(strings.Compare(a.limit, b.limit), a.reset.Compare(b.reset), strings.Compare(a.label, b.label))
	})
	var found [][]string
	for n := 0; n < len(all); {
		first, labels := all[n], []string{}
		for ; n < len(all) && all[n].limit == first.limit && all[n].reset.Sub(first.reset) <= sameEnd; n++ {
			labels = append(labels, all[n].label)
		}
		if len(labels) > 1 {
			slices.Sort(labels)
			found = append(found, labels)
		}
	}
	slices.SortFunc(found, slices.Compare)
	return slices.CompactFunc(found, slices.Equal)
}
