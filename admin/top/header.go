package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// headerLines is the number of lines above the table.
const headerLines = 4

// header returns the lines above the table: the abide, its rates, the quota that ends first, and
// the faults. The last two may be "".
func (m *model) header() [headerLines]string {
	p, all, waiting := m.now.process, m.past.total(), 0
	if p.Waiting != nil {
		waiting = p.Waiting.N
	}
	sites := status.Number(m.now.sites.Count, "site", "sites")
	if m.now.sites.More {
		sites += fmt.Sprintf(", of which the %d with the most bytes are listed", len(m.now.sites.Sites))
	}
	second := fmt.Sprintf("%s requests/s  %s/s received  %s/s sent  %s", perSecond(all.requests), sizePerSecond(all.received), sizePerSecond(all.sent), status.Number(waiting, "request waits", "requests wait"))
	if p.Connections != nil {
		second += fmt.Sprintf("  %s, %s", status.Number(p.Connections.Clients, "connection", "connections"), status.Number(p.Connections.Tunnels, "tunnel", "tunnels"))
	}
	lines := [headerLines]string{fmt.Sprintf("abide %s at %s  up %s  %s", p.Version, m.address, short(seconds(p.Uptime)), sites), second, quota(m.now.forecasts, m.now.at), m.wrong()}
	for i, line := range lines {
		lines[i] = clean(line)
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
	return clean(text)
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
