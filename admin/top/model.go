package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// model is the state of the table: the last sample, and the choices of the user.
type model struct {
	address string
	now     sample
	failed  error // the abide does not answer; now is of the last time that it did

	about    subject // what the user looks at
	sortBy   int     // in columns
	reverse  bool
	filter   string
	selected string // a site; "": the first
	note     string // what became of the last key, until the next
}

// newModel shows sites with the most requests first.
func newModel(address string) *model {
	return &model{address: address, sortBy: slices.IndexFunc(columns, func(c column) bool { return c.title == "REQ/S" })}
}

// take has the model show a sample, or why there is none.
func (m *model) take(s sample, err error) {
	if m.failed = err; err == nil {
		m.now = s
	}
}

// rows are the sites that the filter lets through, in their order.
func (m *model) rows() []status.Site {
	rows := lists.Only(m.now.sites.Sites, func(s status.Site) bool {
		return strings.Contains(strings.ToLower(s.Name), strings.ToLower(m.filter))
	})
	compare := columns[m.sortBy].compare
	slices.SortFunc(rows, func(a, b status.Site) int {
		order := compare(&a, &b)
		if m.reverse {
			order = -order
		}
		return cmp.Or(order, strings.Compare(a.Name, b.Name))
	})
	return rows
}

// siteList is the table of sites for a terminal of a width; 0: all columns.
func (m *model) siteList(rows []status.Site, width int) *list {
	l := &list{columns: slices.Clone(columns)}
	if width > 0 {
		arrow := tcell.RuneDArrow
		if m.reverse {
			arrow = tcell.RuneUArrow
		}
		l.columns[m.sortBy].title += string(arrow)
		l.columns = fitting(l.columns, width)
	}
	for i := range rows {
		l.add(lists.Map(l.columns, func(c column) string { return c.text(&rows[i]) })...)
		l.colors = append(l.colors, colors[severity(&rows[i])])
	}
	return l
}

// holdList is the requests that wait at the site that the user looks at.
func (m *model) holdList() *list {
	l := listOf("CLIENT", "PRIORITY", "WAITED", "WAITS FOR", "UNTIL", "EXPECTED")
	for _, h := range m.now.holds.Holds {
		w := status.Wait{Site: h.Site, Limit: h.Limit, Why: h.Why, Asks: h.Asks, Until: h.Until}
		l.add(cmp.Or(h.Client, "-"), fmt.Sprint(h.Priority), status.Span(status.DurationOf(h.Waited)), w.For(), w.Ends(m.now.at), cmp.Or(status.Ahead(h.Expected, m.now.at), "-"))
	}
	return l
}

// tokenList is the tokens of all pools, each with the limit of which the smallest part is left.
func (m *model) tokenList() *list {
	l := listOf("POOL", "TOKEN", "STATE", "USES", "REFUSED", "LEFT", "OF", "RESETS")
	for _, p := range m.now.tokens.Pools {
		for _, t := range p.Tokens {
			left, of, resets := "-", "-", "-"
			if scarce := status.ScarcestFirst(t.Limits); len(scarce) > 0 {
				announced := scarce[0]
				left, of, resets = announced.LeftText(), announced.Site+": "+announced.Label(), cmp.Or(status.Ahead(announced.Reset, m.now.at), "-")
			}
			state := status.TokenWord(t.State)
			if ends := status.Ahead(t.Until, m.now.at); ends != "" {
				state += ", ends " + ends
			}
			l.add(p.Name, t.Label, state, fmt.Sprint(t.Uses), fmt.Sprint(t.Refusals), left, of, resets)
		}
	}
	return l
}

// choose sorts by a column.
func (m *model) choose(column int) { m.sortBy, m.reverse = column%len(columns), false }

// place returns the index of the selected site in rows: the first if the selected one is not there, -1
// without rows.
func (m *model) place(rows []status.Site) int {
	if len(rows) == 0 {
		return -1
	}
	return max(slices.IndexFunc(rows, func(s status.Site) bool { return s.Name == m.selected }), 0)
}

// headerLines is the number of lines above the table.
const headerLines = 4

// header returns the lines above the table: the abide, its rates, the quota that ends first, and
// the faults. The last two may be "".
func (m *model) header() [headerLines]string {
	p, all, waiting := m.now.process, m.now.process.Rate, 0
	if p.Waiting != nil {
		waiting = p.Waiting.N
	}
	sites := status.Number(m.now.sites.Count, "site", "sites")
	if m.now.sites.More {
		sites += fmt.Sprintf(", of which the %d with the most bytes are listed", len(m.now.sites.Sites))
	}
	second := fmt.Sprintf("%s requests/s  %s/s received  %s/s sent  %s", status.PerSecond(all.Requests), sizePerSecond(all.In), sizePerSecond(all.Out), status.Number(waiting, "request waits", "requests wait"))
	if p.Connections != nil {
		second += fmt.Sprintf("  %s, %s", status.Number(p.Connections.Clients, "connection", "connections"), status.Number(p.Connections.Tunnels, "tunnel", "tunnels"))
	}
	lines := [headerLines]string{fmt.Sprintf("abide %s at %s  up %s  %s", p.Version, m.address, status.Span(status.DurationOf(p.Uptime)), sites), second, quota(m.now.forecasts, m.now.at), m.wrong()}
	for i, line := range lines {
		lines[i] = status.Clean(line)
	}
	return lines
}

// quota says how long the quota lasts that ends first, "" without quotas.
func quota(list []status.Forecast, now time.Time) string {
	list = slices.DeleteFunc(slices.Clone(list), func(f status.Forecast) bool { return !f.Long() })
	if len(list) == 0 {
		return ""
	}
	f := slices.MinFunc(list, func(a, b status.Forecast) int {
		return cmp.Or(runsOut(a, now).Compare(runsOut(b, now)), cmp.Compare(b.Part(), a.Part()))
	})
	return fmt.Sprintf("quota of %s, %s: %s used, %s", f.Site, f.Name(), f.Percent(), f.Lasts(now))
}

// runsOut returns the time at which a quota ends; now if it has ended, far ahead if it is enough.
func runsOut(f status.Forecast, now time.Time) time.Time {
	switch {
	case f.Left <= 0:
		return now
	case f.RunsOut.IsZero() || !f.RunsOut.Before(f.Ends):
		return now.Add(status.Far)
	}
	return f.RunsOut
}

// wrong returns the faults in one line: the abide does not answer, or a part of it is degraded.
func (m *model) wrong() string {
	if m.failed != nil {
		return "NO ANSWER, asked again each time: " + m.failed.Error()
	}
	var list []string
	for _, one := range m.now.process.Checks {
		if word := one.Word(); word != "ok" {
			list = append(list, strings.TrimSuffix(one.Name+" is "+word+": "+one.Detail, ": "))
		}
	}
	return strings.Join(list, "; ")
}

// footer returns the result of the last key, or the list of keys.
func (m *model) footer() string {
	text := "s sort  r reverse  / filter  p pause  enter holds  t tokens  ? help  q quit"
	switch {
	case m.note != "":
		text = m.note
	case m.about != (subject{}):
		text = "esc back  q quit  " + m.found()
	case m.filter != "":
		text = "filter: " + m.filter + "  / changes it, esc removes it"
	}
	return status.Clean(text)
}

// found returns the number of requests or tokens, or says that the abide has not answered yet.
func (m *model) found() string {
	if m.now.about != m.about {
		return "waiting for abide's answer"
	}
	if m.about.tokens {
		count := 0
		for _, p := range m.now.tokens.Pools {
			count += p.Count
		}
		return status.Number(count, "token", "tokens")
	}
	more := ""
	if m.now.holds.More {
		more = "more than "
	}
	return more + status.Number(len(m.now.holds.Holds), "request waits", "requests wait") + " at " + m.about.site
}
