package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

const (
	// ahead is the number of steps that a timeline has after now.
	ahead = history.Points
	// timelineWidth is the width of a timeline, one unit for a step. Now is in its middle.
	timelineWidth = history.Points + ahead
)

// stateNames are the states as classes and words. What is not here is not drawn.
var stateNames = map[history.State]string{
	history.Ready: "ready", history.Used: "used", history.Partly: "partly", history.Spent: "spent",
	history.Cooling: "cooling", history.Disabled: "disabled", history.Quarantined: "quarantined",
}

// stateWords say what a state is in a legend, in its order.
var stateWords = []struct{ Name, Words string }{
	{"used", "in use"},
	{"ready", "ready"},
	{"partly", "partly ready"},
	{"spent", "spent"},
	{"cooling", "cooling"},
	{"quarantined", "denied"},
	{"disabled", "disabled"},
}

// stretch is all steps of a timeline in one state, as one path.
type stretch struct{ State, Path string }

// timeline is a token over the last and the coming minutes.
type timeline struct {
	Stretches []stretch
	Title     string
}

// tokenRow is a token as the page lists it.
type tokenRow struct {
	status.Token
	Timeline timeline
	Scarce   []limitBar
	More     int    // limits that are not shown
	Tone     string // the class of the token's state
}

// poolView is a pool as the page shows it.
type poolView struct {
	*status.Pool
	Counts []stateCount
	Of     []string   // the limits of most of the rows, which do not name them again
	Rows   []tokenRow // those that cannot go first
	Now    time.Time
}

// stateCount is the number of tokens of a pool in one state, drawn from X on.
type stateCount struct {
	Name, Words string
	N, X        int
}

// poolOf is a pool with the timelines of its tokens.
func poolOf(p *status.Pool, from *history.Snapshot, now time.Time) poolView {
	v := poolView{Pool: p, Now: now, Counts: countsOf(p.Tokens, now)}
	end := cmp.Or(from.End, now.Truncate(history.Step).Add(history.Step))
	several, list, rows := p.Sites() > 1, slices.Clone(p.Tokens), map[string]int{} // :: limits → rows that have them
	slices.SortStableFunc(list, func(a, b status.Token) int { return cmp.Compare(history.StateOf(&b, now), history.StateOf(&a, now)) })
	for _, t := range list[:min(len(list), status.MaxListed)] {
		row := tokenRow{Token: t, Tone: stateNames[history.StateOf(&t, now)], More: max(len(t.Limits)-maxScarce, 0), Scarce: scarceOf(t.Limits, several, now)}
		for _, one := range t.Written[:min(len(t.Written), maxScarce)] {
			one.Of = ""
			bar := barOf(&one)
			bar.In = status.Ahead(one.Reset, now)
			row.Scarce = append(row.Scarce, bar)
		}
		slices.SortStableFunc(row.Scarce, func(a, b limitBar) int { return cmp.Compare(a.Name, b.Name) })
		names := lists.Map(row.Scarce, func(b limitBar) string { return strings.Split(b.Name, "; ")[0] })
		if rows[fmt.Sprint(names)] += min(len(names), 1); rows[fmt.Sprint(names)] > rows[fmt.Sprint(v.Of)] {
			v.Of = names
		}
		row.Timeline = timelineOf(&t, from.Tokens[history.TokenKey{Pool: p.Name, Label: t.Label}], now, end)
		v.Rows = append(v.Rows, row)
	}
	for _, row := range v.Rows {
		for i, name := range v.Of[:min(len(v.Of), len(row.Scarce))] {
			if limit, notes, _ := strings.Cut(row.Scarce[i].Name, "; "); limit == name {
				row.Scarce[i].Name = notes
			}
		}
	}
	return v
}

// countsOf counts tokens by state: of a token of which a limit is used up, other limits may be free.
func countsOf(list []status.Token, now time.Time) (counts []stateCount) {
	by, x := map[string]int{}, 0
	for i := range list {
		by[stateNames[history.StateOf(&list[i], now)]]++
	}
	for _, one := range stateWords {
		counts = append(counts, stateCount{one.Name, one.Words, by[one.Name], x})
		x += by[one.Name]
	}
	return counts
}

// timelineOf is a token until end as it was observed, and after end as far as is known.
func timelineOf(t *status.Token, past history.Timeline, now, end time.Time) timeline {
	var steps [timelineWidth]history.State
	copy(steps[:], past[:])
	state := history.StateOf(t, now)
	until := ahead // where nobody knows
	if last := lastOf(t, now); !last.IsZero() {
		until = int((last.Sub(end) + history.Step - 1) / history.Step)
	}
	for i := range ahead {
		steps[history.Points+i] = history.Ready
		if i < until {
			steps[history.Points+i] = state
		}
	}
	return timeline{
		Stretches: stretchesOf(steps),
		Title:     t.Label + ": " + wordsOf(t, past),
	}
}

// lastOf returns the time at which the token has no pause any more; zero: nobody knows.
func lastOf(t *status.Token, now time.Time) time.Time {
	last := t.Until
	switch t.State {
	case "quarantined":
		return time.Time{} // the next try may fail, too
	case "ready":
		last = t.Partly(now)
		for _, one := range t.Routes {
			last = status.Later(last, one.Until)
		}
	}
	return last
}

// stretchesOf has a path for each state that is there.
func stretchesOf(steps [timelineWidth]history.State) (list []stretch) {
	paths := map[history.State][]byte{}
	for from := 0; from < len(steps); {
		to := from + 1
		for to < len(steps) && steps[to] == steps[from] && to != history.Points {
			to++
		}
		path := strconv.AppendInt(append(paths[steps[from]], 'M'), int64(from), 10)
		path = strconv.AppendInt(append(path, " 0h"...), int64(to-from), 10)
		path = strconv.AppendInt(append(path, "v10h-"...), int64(to-from), 10)
		paths[steps[from]] = append(path, 'z')
		from = to
	}
	for state := history.Ready; state <= history.Quarantined; state++ {
		if path := paths[state]; len(path) > 0 {
			list = append(list, stretch{stateNames[state], string(path)})
		}
	}
	return list
}

// wordsOf is a timeline in words.
func wordsOf(t *status.Token, past history.Timeline) string {
	used, away := 0, 0
	for _, one := range past {
		switch {
		case one == history.Used:
			used++
		case one > history.Ready:
			away++
		}
	}
	return fmt.Sprintf("%s now; of the last 15 min in use for %s, not usable for %s", status.TokenWord(t.State), status.Long(time.Duration(used)*history.Step), status.Long(time.Duration(away)*history.Step))
}

// maxScarce is the largest number of limits in the row of a token.
const maxScarce = 2

// scarceOf are the limits of a token that have the least left.
func scarceOf(limits []status.Announced, several bool, now time.Time) (bars []limitBar) {
	for _, one := range status.ScarcestFirst(limits)[:min(len(limits), maxScarce)] {
		bars = append(bars, announcedBar(&one, several, now))
	}
	return bars
}

// announcedBar is an announced limit as a bar.
func announcedBar(a *status.Announced, several bool, now time.Time) limitBar {
	b := limitBar{Name: a.Label(), Left: leftWords(a.LeftText()), In: status.Ahead(a.Reset, now), Used: -1}
	if several && a.Site != "" {
		b.Name = a.Site + ": " + b.Name
	}
	if notes := a.Notes(); notes != "" {
		b.Name += "; " + notes
	}
	if share := a.LeftShare(); share <= 1 && a.Limit > 0 {
		b.Used = 100 - int(100*share)
	}
	return b
}
