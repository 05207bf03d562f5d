package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// list is a table of clean texts.
type list struct {
	titles []string
	right  []bool // columns of numbers
	widths []int
	rows   [][]string
	colors []tcell.Color // of the rows; nil: none has one
}

// add adds a row.
func (l *list) add(cells ...string) {
	for i, one := range cells {
		cells[i] = clean(one)
	}
	l.rows = append(l.rows, cells)
}

// fit makes the columns as wide as their texts, and narrower where the terminal has no room.
func (l *list) fit(room int) {
	const least = 5
	l.right = make([]bool, len(l.titles))
	l.widths = make([]int, len(l.titles))
	for x, title := range l.titles {
		l.widths[x] = width(title)
		for _, cells := range l.rows {
			l.widths[x] = max(l.widths[x], width(cells[x]))
		}
	}
	squeeze(l.widths, room, least)
}

// cell is a text as wide as its column.
func (l *list) cell(text string, x int) string {
	return padded(cut(text, l.widths[x]), l.widths[x], l.right[x])
}

// line is a row as text.
func (l *list) line(cells []string) string {
	var line strings.Builder
	for x, text := range cells {
		line.WriteString(l.cell(text, x) + "  ")
	}
	return strings.TrimRight(line.String(), " ")
}

// siteList is the table of sites for a terminal of a width; 0: as wide as the texts are.
func (m *model) siteList(rows []row, room int) list {
	texts, used := siteTexts(rows)
	var shown []placed
	if room == 0 {
		shown = everything(used)
	} else {
		shown = layout(room, used)
	}
	var l list
	for _, c := range shown {
		title := c.title
		if room > 0 && c.number == m.sortBy {
			title = m.sortedTitle(c)
		}
		l.titles, l.right, l.widths = append(l.titles, title), append(l.right, c.right), append(l.widths, c.width)
	}
	for y, r := range rows {
		cells := lists.Map(shown, func(c placed) string { return texts[y][c.number] })
		l.rows, l.colors = append(l.rows, cells), append(l.colors, stateColor(r.state))
	}
	return l
}

// siteTexts are the texts of all columns, and how wide each column is.
func siteTexts(rows []row) (texts [][]string, used []int) {
	used = make([]int, len(columns))
	for _, r := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = clean(c.text(r))
			used[i] = max(used[i], width(cells[i]))
		}
		texts = append(texts, cells)
	}
	return texts, used
}

// everything is all columns in the width of their texts.
func everything(used []int) []placed {
	var all []placed
	for i, c := range columns {
		all = append(all, placed{c, i, max(used[i], len(c.title))})
	}
	return all
}

// sortedTitle is the title of the column that rows are sorted by, with an arrow.
func (m *model) sortedTitle(c placed) string {
	arrow := tcell.RuneDArrow
	if m.reverse {
		arrow = tcell.RuneUArrow
	}
	return cut(c.title, c.width-1) + string(arrow)
}

func stateColor(state string) tcell.Color {
	switch state {
	case "open":
		return tcell.ColorRed
	case "half-open", "paused":
		return tcell.ColorYellow
	}
	return tcell.ColorDefault
}

// holdList is the requests that wait at the site that the user looks at.
func (m *model) holdList() list {
	l := list{titles: []string{"CLIENT", "PRIORITY", "WAITED", "WAITS FOR", "UNTIL", "EXPECTED"}}
	for _, h := range m.now.holds.Holds {
		w := status.Wait{Site: h.Site, Limit: h.Limit, Why: h.Why, Asks: h.Asks, Until: h.Until}
		l.add(cmp.Or(h.Client, "-"), fmt.Sprint(h.Priority), short(seconds(h.Waited)), w.For(), w.Ends(m.now.at), cmp.Or(status.Ahead(h.Expected, m.now.at), "-"))
	}
	return l
}

// tokenList is the tokens of all pools, each with the limit of which the smallest part is left.
func (m *model) tokenList() list {
	l := list{titles: []string{"POOL", "TOKEN", "STATE", "USES", "REFUSED", "LEFT", "OF", "RESETS"}}
	for _, p := range m.now.tokens.Pools {
		for _, t := range p.Tokens {
			left, of, resets := "-", "-", "-"
			if announced := scarcest(t.Limits); announced != nil {
				left, of, resets = announced.LeftText(), announced.Site+": "+announced.Label(), cmp.Or(status.Ahead(announced.Reset, m.now.at), "-")
			}
			state := t.State
			if ends := status.Ahead(t.Until, m.now.at); ends != "" {
				state += ", ends " + ends
			}
			l.add(p.Name, t.Label, state, fmt.Sprint(t.Uses), fmt.Sprint(t.Refusals), left, of, resets)
		}
	}
	return l
}

// scarcest is the limit with the smallest part left, nil without limits.
func scarcest(limits []status.Announced) (least *status.Announced) {
	for i := range limits {
		if least == nil || limits[i].LeftShare() < least.LeftShare() {
			least = &limits[i]
		}
	}
	return least
}

// row is a site as the table shows it.
type row struct {
	site      string
	rates     rates
	waiting   int
	longest   time.Duration // that a request has waited so far
	limitedBy string
	refusals  uint64
	state     string // ok, half-open, open or paused
	paused    bool
}

func rowOf(site status.Site, r rates) row {
	w := row{
		site: site.Name, rates: r, waiting: site.Held, longest: seconds(site.LongestWait),
		limitedBy: site.LimitedBy, refusals: site.Refusals, state: status.BreakerWord(site.Breaker), paused: site.Paused != nil,
	}
	if w.paused {
		w.state = "paused"
	}
	return w
}

// clean is a text of another process without anything that steers a terminal.
func clean(s string) string {
	return strings.Map(status.Printable, strings.ToValidUTF8(s, "\uFFFD"))
}

// width returns the number of columns of a terminal that a clean text takes.
func width(s string) int { return uniseg.StringWidth(s) }

// cut is a clean text of at most so many columns of a terminal.
func cut(s string, most int) string {
	if width(s) <= most {
		return s
	}
	if most <= 0 {
		return ""
	}
	var b strings.Builder
	left := most - width("…")
	for rest, state := s, -1; rest != ""; {
		var character string
		var wide int
		character, rest, wide, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if left -= wide; left < 0 {
			break
		}
		b.WriteString(character)
	}
	return b.String() + "…"
}

// padded is a clean text with spaces, so that it takes a width.
func padded(s string, to int, right bool) string {
	space := strings.Repeat(" ", max(to-width(s), 0))
	if right {
		return space + s
	}
	return s + space
}

// perSecond is a rate: "0", "<0.1", "12.3", "1204".
func perSecond(rate float64) string {
	switch {
	case rate <= 0:
		return "0"
	case rate < 0.05:
		return "<0.1"
	case rate < 99.95:
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// sizePerSecond is a rate of bytes, without its "/s": "1.2 MB".
func sizePerSecond(rate float64) string { return status.Size(uint64(max(rate, 0))) }

// short is a duration in two parts at most: "12s", "3m05s", "2h10m", "3d04h".
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(d, 0)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// seconds is a number of seconds as the API has it.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
