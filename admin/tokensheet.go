package admin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// maxLines is how many limits of one token the page has room for.
const maxLines = 6

// tokenSheet is the tokens as the page shows them, and whether it has buttons.
type tokenSheet struct {
	Pools           []poolSheet
	Limits          []limitLine
	Hidden          int // of the limits
	Disable, Enable bool
}

type poolSheet struct {
	Pool
	Lines []tokenLine
}

type tokenLine struct {
	Token
	Limits []limitLine // those that have the least left, first
	Hidden int
}

// limitLine is a limit for people.
type limitLine struct {
	Site, Name, Left, In, Others string
}

// tokenSheet is nil when nobody knows of tokens, and when there are neither any
// nor limits.
func (d *desk) tokenSheet(now time.Time) *tokenSheet {
	if d.Tokens == nil {
		return nil
	}
	all := d.Tokens().finished()
	if len(all.Pools)+len(all.Limits) == 0 {
		return nil
	}
	s := &tokenSheet{Disable: d.Disable != nil, Enable: d.Enable != nil}
	for _, p := range all.Pools {
		one := poolSheet{Pool: p}
		for _, t := range p.Tokens[:min(len(p.Tokens), maxSites)] {
			line := tokenLine{Token: t}
			scarce := slices.Clone(t.Limits)
			slices.SortStableFunc(scarce, func(a, b Announced) int { return cmp.Compare(a.share(), b.share()) })
			line.Limits, line.Hidden = limitLines(scarce, maxLines, p.sites() > 1, now)
			one.Lines = append(one.Lines, line)
		}
		s.Pools = append(s.Pools, one)
	}
	s.Limits, s.Hidden = limitLines(all.Limits, maxSites, true, now)
	return s
}

// tones are how states of tokens look.
var tones = map[string]string{"ready": "good", "quarantined": "bad", "disabled": "faint"}

func limitLines(list []Announced, most int, withSite bool, now time.Time) (lines []limitLine, hidden int) {
	for _, one := range list[:min(len(list), most)] {
		line := limitLine{Name: one.Name(), Left: one.left(), In: ahead(one.Reset, now), Others: one.others()}
		if withSite {
			line.Site = one.Site
		}
		lines = append(lines, line)
	}
	return lines, len(list) - len(lines)
}

// sites is how many sites have announced something to tokens of the pool.
func (p Pool) sites() int {
	seen := map[string]bool{}
	for _, t := range p.Tokens {
		for _, one := range t.Limits {
			seen[one.Site] = true
		}
	}
	return len(seen)
}

// Name is what people call it: "75 per 15m for GET /2/tweets/*".
func (a Announced) Name() string { return cmp.Or(a.Title, policy.LearnedTitle("", a.Route)) }

// left is what is left of what.
func (a Announced) left() string {
	switch {
	case a.Remaining >= 0 && a.Limit >= 0:
		return fmt.Sprintf("%d of %d", a.Remaining, a.Limit)
	case a.Remaining >= 0:
		return fmt.Sprint(a.Remaining)
	case a.Limit >= 0:
		return fmt.Sprintf("? of %d", a.Limit)
	}
	return cmp.Or(a.State, "not known")
}

// share is what is left of it, from 0 to 1; more is for what nobody knows.
func (a Announced) share() float64 {
	switch {
	case a.Remaining < 0:
		return 2
	case a.Limit <= 0:
		return 1
	}
	return float64(a.Remaining) / float64(a.Limit)
}

// others says how much of it others use, "" for too little to see.
func (a Announced) others() string {
	if share := math.Round(100 * a.Foreign); share >= 1 {
		return fmt.Sprintf("others use %.0f %%", share)
	}
	return ""
}
