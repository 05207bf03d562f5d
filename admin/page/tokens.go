package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// stateWords say what a state is in a legend, in its order, and what that means.
var stateWords = []struct {
	name, words string
	means       markup
}{
	{"used", "in use", ""},
	{"ready", "ready", ""},
	{"partly", "partly ready", ": used up or put away at one route or site, and ready for others"},
	{"spent", "spent", ": nothing is left of a limit until it resets"},
	{"cooling", "cooling", ": the site asked for a pause"},
	{"quarantined", "denied", ": the site does not accept it; it is tried again from time to time"},
	{"disabled", "disabled", ": by the operator, until it is enabled"},
}

// tokenRow is a token as the page lists it.
type tokenRow struct {
	*status.Token
	scarce []limitBar
}

func (v *view) tokens() {
	v.put("{}", some(len(v.Tokens.Pools) > 0, `<section aria-labelledby="h-tokens"><h2 id="h-tokens">Tokens</h2>{}</section>`, lists.Map(v.Tokens.Pools, v.pool)))
}

// pool is a pool with the timelines of its tokens.
func (v *view) pool(p status.Pool) part {
	count, x := map[string]int{}, 0
	for i := range p.Tokens { // of a token of which a limit is used up, other limits may be free
		count[history.StateOf(&p.Tokens[i], v.now).String()]++
	}
	var counts, drawn, legend []part
	for _, one := range stateWords {
		n := count[one.name]
		counts = append(counts, some(n > 0, `<span><i class="t-{}"></i>{} {}</span> `, one.name, number(n), one.words))
		drawn = append(drawn, some(n > 0, `<rect class="t-{}" x="{}" width="{}" height="1"/>`, one.name, x, n))
		legend = append(legend, html(`<li><i class="t-{}"></i>{}{}</li>`, one.name, one.words, one.means))
		x += n
	}
	rows, common := tokenRows(&p, v.now)
	return html(`<details data-key="{}" class="pool"><summary><b>{}</b> {} <span class="legend">{}</span>
<svg class="states" viewBox="0 0 {} 1" preserveAspectRatio="none" aria-hidden="true">{}</svg></summary><ul class="alike">{}</ul>{}</details>`,
		p.Name, p.Name, p.Can(v.now), counts, cmp.Or(p.Count, 1), drawn, lists.Map(p.Groups(v.now), func(g status.TokenGroup) part {
			why := g.Why(v.now)
			return html(`<li><b class="t-word {}">{}</b>{}</li>`, g.State, g.Tokens(), some(why != "", ": {}", status.Grouped(why)))
		}), some(len(rows) > 0, `<details data-key="tokens of {}"><summary>Each token</summary><ul class="legend">{}</ul><div class="wide"><table class="stack tokens">
<thead><tr><th scope="col">Token</th><th scope="col" class="text minutes"><span class="axis"><span>15 min ago</span><span>now</span><span>in 15 min</span></span></th><th scope="col" class="text">State</th><th scope="col" class="text">Left{}{}</th><th scope="col" title="Requests with the token">Uses</th><th scope="col" title="Answers that refused a request with the token because of a limit">Refused</th><th scope="col" title="Answers that did not accept the token">Denied</th><td></td></tr></thead>
<tbody>{}</tbody></table></div>{}</details>`, p.Name, legend, some(len(common) > 0, " of "), strings.Join(lists.Map(common, status.Grouped), "; "), lists.Map(rows, func(row tokenRow) part { return v.token(p.Name, &row) }),
			some(p.Count > len(rows), "<p>{} of {} are listed, those that cannot go first.</p>", len(rows), number(p.Count))))
}

// tokenRows are the tokens of a pool, those that cannot go first, and the limits of most of them, which they do not name
// again.
func tokenRows(p *status.Pool, now time.Time) (rows []tokenRow, common []string) {
	several, list, count := p.Sites() > 1, slices.Clone(p.Tokens), map[string]int{} // :: limits → rows that have them
	slices.SortStableFunc(list, func(a, b status.Token) int { return cmp.Compare(history.StateOf(&b, now), history.StateOf(&a, now)) })
	for i := range list[:min(len(list), status.MaxListed)] {
		row := tokenRow{Token: &list[i]}
		for _, one := range status.ScarcestFirst(row.Limits)[:min(len(row.Limits), maxScarce)] {
			row.scarce = append(row.scarce, announcedBar(&one, several, now))
		}
		for _, one := range row.Written[:min(len(row.Written), maxScarce)] {
			one.Of = ""
			bar := barOf(&one)
			bar.In = status.Ahead(one.Reset, now)
			row.scarce = append(row.scarce, bar)
		}
		slices.SortStableFunc(row.scarce, func(a, b limitBar) int { return cmp.Compare(a.Name, b.Name) })
		names := lists.Map(row.scarce, func(b limitBar) string { return strings.Split(b.Name, "; ")[0] })
		if count[fmt.Sprint(names)] += min(len(names), 1); count[fmt.Sprint(names)] > count[fmt.Sprint(common)] {
			common = names
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		for i, name := range common[:min(len(common), len(row.scarce))] {
			if limit, notes, _ := strings.Cut(row.scarce[i].Name, "; "); limit == name {
				row.scarce[i].Name = notes
			}
		}
	}
	return rows, common
}

// maxScarce is the largest number of limits in the row of a token.
const maxScarce = 2

// token is the row of a token.
func (v *view) token(pool string, t *tokenRow) part {
	line, title := timelineOf(t.Token, v.Samples.Tokens[history.TokenKey{Pool: pool, Label: t.Label}], v.now, cmp.Or(v.Samples.End, v.now.Truncate(history.Step).Add(history.Step)))
	tone, until := history.StateOf(t.Token, v.now).String(), status.Ahead(t.Until, v.now)
	denied, off, more := t.State == "quarantined", t.State == "disabled", len(t.Limits)-maxScarce
	said := t.State != "spent" || len(t.scarce) == 0 // the limits do not say it
	return html(`<tr data-key="{}"><th scope="row">{}{}</th><td class="drawn"><svg class="timeline" viewBox="0 0 180 10" preserveAspectRatio="none" role="img" aria-label="{}"><title>{}</title>{}<path class="now" d="M90 0v10"/></svg></td>
<td class="text"><span class="whole"><span class="t-word {}">{}</span>{}</span>{}{}</td><td class="text">{}{}{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>`, t.Label, t.Label, lists.Map(t.Twins, func(twin string) part { return html(" <small>shares its account with {}</small>", twin) }),
		title, title, lists.Map(line, func(s stretch) part { return html(`<path class="t-{}" d="{}"/>`, s.State, s.Path) }),
		tone, pick(tone == "partly", "partly ready", status.TokenWord(t.State)), some(said && until != "", ", {} {}", pick(denied, "tried again", "ends"), until), some(said && t.Why != "", " <small>{}</small>", t.Why),
		lists.Map(t.Routes, func(r status.Paused) part {
			until := status.Ahead(r.Until, v.now)
			return html(" <small>{}: {}{}</small>", r.Route, status.TokenWord(r.State), some(until != "", ", ends {}", until))
		}), lists.Map(t.scarce, func(limit limitBar) part {
			return html(`<div class="limit">{}<span>{}{}</span>{}</div>`, some(!denied && !off, "{}", left(limit.Used)), limit.Left, some(limit.In != "", `, <span class="whole">resets {}</span>`, limit.In), some(limit.Name != "", " <small>{}</small>", status.Grouped(limit.Name)))
		}), some(len(t.scarce) == 0, `<span class="faint">nothing learned yet</span>`), some(more > 0, "<small>{} more</small>", number(more)), status.Count(t.Uses), status.Count(t.Refusals), status.Count(t.Denials),
		some(denied || off, tokenForm+`"enable" data-done="{} {}" aria-label="{} {}{}">{}</button></form>`, pool, t.Label, t.Label, pick(off, "is enabled", "can go again: the next request tries it"), pick(off, "Enable", "Try"), t.Label, some(!off, " again now"), pick(off, "Enable", "Try now")),
		some(!off, tokenForm+`"disable" aria-label="Disable {}">Disable</button></form>`, pool, t.Label, t.Label))
}

// tokenForm begins a form about a token, up to what its button does.
const tokenForm markup = `<form method="post" action="/tokens"><input type="hidden" name="pool" value="{}"><input type="hidden" name="label" value="{}"><button name="do" value=`

const (
	// ahead is the number of steps that a timeline has after now.
	ahead = history.Points
	// timelineWidth is the width of a timeline, one unit for a step. Now is in its middle.
	timelineWidth = history.Points + ahead
)

// stretch is all steps of a timeline in one state, as one path.
type stretch struct{ State, Path string }

// timelineOf is a token until end as it was observed, and after end as far as is known, with the same in words.
func timelineOf(t *status.Token, past history.Timeline, now, end time.Time) ([]stretch, string) {
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
	return stretchesOf(steps), t.Label + ": " + wordsOf(t, past)
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
	paths := map[history.State]string{}
	for from := 0; from < len(steps); {
		to := from + 1
		for to < len(steps) && steps[to] == steps[from] && to != history.Points {
			to++
		}
		paths[steps[from]] += fmt.Sprintf("M%d 0h%dv10h-%dz", from, to-from, to-from)
		from = to
	}
	for state := history.Ready; state <= history.Quarantined; state++ {
		if path := paths[state]; path != "" {
			list = append(list, stretch{state.String(), path})
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

// limits are learned limits, quotas and written limits, without groups that are empty.
func (v *view) limits() {
	groups := lists.Only([]limitGroup{
		{"Learned from sites", "Resets", fold(v.learnt, 3, func(l *learned) limitBar { return l.bar(v.now) })},
		{"Quotas", "Lasts", quotasOf(v.Facts, v.now)},
		{"Configured, with defaults", "Resets", writtenOf(v.Facts, v.now)},
	}, func(g limitGroup) bool { return len(g.Shown)+len(g.Folded) > 0 })
	v.put("{}", some(len(groups) > 0, `<section aria-labelledby="h-limits"><h2 id="h-limits">Limits</h2><div class="groups">{}</div></section>`, lists.Map(groups, limitGroup.part)))
}

// limitGroup is limits of one kind.
type limitGroup struct {
	name, last string // last is the heading of the last column
	folded[limitBar]
}

func (g limitGroup) part() part {
	shown, n := len(g.Shown) > 0, len(g.Folded)
	summary := pick(shown, html("{} more", n), html("<h3>{}</h3> {}{} {}", g.name, some(g.Hidden > 0, "the fullest "), n, pick(n == 1, "limit", "limits")))
	return html(`<div data-key="{}">{}{}</div>`, g.name, some(shown, "<h3>{}</h3>"+limitTable, g.name, g.last, lists.Map(g.Shown, limitBar.row)),
		some(n > 0, `<details data-key="more"><summary>{}</summary>`+limitTable+`{}</details>`, summary, g.last, lists.Map(g.Folded, limitBar.row), hidden(g.Hidden, "more, of which more is left, are not listed.")))
}

const limitTable markup = `<div class="wide"><table class="stack bars"><colgroup><col><col><col></colgroup><thead class="hidden"><tr><th scope="col">Limit</th><th scope="col">Left</th><th scope="col">{}</th></tr></thead><tbody>{}</tbody></table></div>`

func (b limitBar) row() part {
	return html(`<tr><th scope="row">{} <small>{}{}{}</small></th><td>{}{}</td><td>{}{}</td></tr>`, dotted(b.Site), status.Grouped(b.Name), some(b.Shared, ", shared"), some(b.Set, ", set at run time"),
		left(b.Used), some(b.Left != "-", " {}", b.Left), some(strings.HasPrefix(b.In, "in "), "resets "), split(b.In, " (", "<span>{}</span>", ` <span class="whole">({}</span>`))
}
