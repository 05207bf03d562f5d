package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// mostGroups bounds the groups of a pool, and mostNames the tokens that a group names.
	mostGroups, mostNames = 12, 8
	// fewNames is the number of tokens up to which a group names them although sites accept them.
	fewNames = 3
)

// TokenGroup tells of the tokens of a pool that are in the same state for the same reason.
type TokenGroup struct {
	State  string
	Reason string    // the limit of which nothing is left, or why they are away; "": none
	Labels []string  // of the tokens
	First  time.Time // when the first of them is free again; zero: nobody knows
	Last   time.Time // when all of them are
}

// Groups returns the tokens of the pool by state and reason: those that are ready first, then the largest group.
func (p Pool) Groups(now time.Time) (list []TokenGroup) {
	at := map[[2]string]int{} // :: state and reason → place in the list
	for i := range p.Tokens {
		t := &p.Tokens[i]
		reason, until := t.held(now)
		key := [2]string{t.State, reason}
		place, there := at[key]
		if !there && len(list) >= mostGroups {
			key = [2]string{"in other states"}
			place, there = at[key]
		}
		if !there {
			place, at[key] = len(list), len(list)
			list = append(list, TokenGroup{State: key[0], Reason: key[1], First: until, Last: until})
		}
		g := &list[place]
		g.Labels = append(g.Labels, t.Label)
		if until.Before(g.First) {
			g.First = until
		}
		g.Last = Later(g.Last, until)
	}
	healthy := func(g TokenGroup) int {
		if g.State == "ready" && g.Reason == "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b TokenGroup) int {
		return cmp.Or(cmp.Compare(healthy(a), healthy(b)), cmp.Compare(len(b.Labels), len(a.Labels)))
	})
	return list
}

// held returns why the token cannot go, in all or for the routes of a limit, and until when.
func (t *Token) held(now time.Time) (reason string, until time.Time) {
	if t.State != "ready" && t.State != "spent" || t.Denied() {
		return t.Reason(), t.Until
	}
	for _, l := range t.exhausted(now) {
		if l.Reset.After(until) {
			reason, until = l.Name(), l.Reset
		}
	}
	if t.State == "spent" {
		until = cmp.Or(t.Until, until)
	}
	return reason, until
}

// Tokens says how many there are, in which state: "195 spent".
func (g TokenGroup) Tokens() string {
	if g.State == "ready" && g.Reason != "" {
		return fmt.Sprintf("%d partly ready", len(g.Labels))
	}
	return fmt.Sprintf("%d %s", len(g.Labels), TokenWord(g.State))
}

// Why describes why, until when, and which tokens, where they are few or sites do not accept them.
func (g TokenGroup) Why(now time.Time) string {
	var parts []string
	if g.Reason != "" {
		parts = append(parts, g.Reason)
	}
	verb := "free"
	if g.State == "quarantined" {
		verb = "tried again"
	}
	first, last := Ahead(g.First, now), Ahead(g.Last, now)
	switch {
	case last == "":
	case first == last || first == "":
		parts = append(parts, verb+" "+last)
	default:
		parts = append(parts, fmt.Sprintf("the first %s %s, the last %s", verb, first, last))
	}
	if dead := g.State == "quarantined" || g.State == "disabled"; dead || len(g.Labels) <= fewNames && g.Reason != "" {
		parts = append(parts, FirstOf(g.Labels, mostNames))
	}
	return strings.Join(parts, "; ")
}
