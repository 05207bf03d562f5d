package admin

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Describe writes how the process is that was asked, for people. Nothing in it can
// steer a terminal.
func (s Status) Describe(w io.Writer) {
	state := "not ready"
	if s.Ready {
		state = "ready"
	}
	up := time.Duration(s.Uptime * float64(time.Second)).Truncate(time.Second)
	say(w, "%s at %s: %s, up %v", strings.TrimSpace("abide "+s.Version), s.Listen, state, up)
	if s.Connections != nil {
		say(w, "%s, %s", number(s.Connections.Clients, "client connection", "client connections"), number(s.Connections.Tunnels, "tunnel", "tunnels"))
	}
	say(w, "%s to %s; %s received, %s sent", number(int(s.Total.Requests), "request", "requests"), number(s.SiteCount, "site", "sites"), size(s.Total.In), size(s.Total.Out))
	for _, one := range s.Checks {
		told := s.Store != nil && s.Store.Err != "" && strings.Contains(one.Detail, s.Store.Err) // DescribeStore says it
		if !one.OK || one.Degraded && !told {
			say(w, "%s is %s: %s", one.Name, one.word(), cmp.Or(one.Detail, "it does not say why"))
		}
	}
}

// mostDescribed is how many sites the status for people lists; abide sites lists them
// all.
const mostDescribed = 10

// DescribeSites writes the sites with the most bytes, for people.
func (s Status) DescribeSites(w io.Writer) {
	if len(s.Sites) == 0 {
		return
	}
	heading(w, "sites")
	t := table{numbers: []int{1, 2, 3}}
	t.add("SITE", "REQUESTS", "RECEIVED", "SENT")
	for _, one := range s.Sites[:min(len(s.Sites), mostDescribed)] {
		t.add(one.Name, fmt.Sprint(one.Requests), size(one.In), size(one.Out))
	}
	t.write(w)
	if more := s.SiteCount - min(len(s.Sites), mostDescribed); more > 0 {
		say(w, "and %s; abide sites lists them", number(more, "other", "others"))
	}
}

// DescribeAdaptive writes the rates that adaptive limits have come to, for people.
func (s Status) DescribeAdaptive(w io.Writer) {
	if len(s.Adaptive) == 0 {
		return
	}
	heading(w, "adaptive limits")
	t := table{numbers: []int{2}}
	t.add("SITE", "LIMIT", "NOW")
	for _, one := range s.Adaptive {
		name := one.Limit
		if one.Of != "" {
			name += " of " + one.Of
		}
		t.add(one.Site, name, rateText(one.Rate))
	}
	t.write(w)
}

// Describe writes a line for each site, for people.
func (l SiteList) Describe(w io.Writer, now time.Time) {
	if len(l.Sites) == 0 {
		say(w, "no request has come yet")
		return
	}
	t := table{numbers: []int{1, 2, 3, 4, 5}}
	t.add("SITE", "REQUESTS", "LAST MINUTE", "RECEIVED", "SENT", "WAIT", "MOST WAIT FOR", "BREAKER")
	for _, one := range l.Sites {
		state := cmp.Or(one.Breaker, "closed")
		for _, b := range one.Breakers {
			if b.Backend == "" && b.Until.After(now) {
				state += ", tries " + in(b.Until, now)
			}
		}
		t.add(one.Name, fmt.Sprint(one.Requests), fmt.Sprint(one.LastMinute), size(one.In), size(one.Out), fmt.Sprint(one.Held), cmp.Or(one.LimitedBy, "-"), state)
	}
	t.write(w)
	if l.More {
		say(w, "and %s", number(l.Count-len(l.Sites), "other", "others"))
	}
}

// DescribeWaiting writes which sites and backends are left alone, and why requests
// wait.
func (s Status) DescribeWaiting(w io.Writer, now time.Time) {
	if len(s.Breakers) > 0 {
		heading(w, "broken")
		t := table{}
		t.add("SITE", "BREAKER", "TRIES", "FAILED LAST BECAUSE")
		for _, one := range s.Breakers {
			site := one.Site
			if one.Backend != "" {
				site += " / " + one.Backend
			}
			t.add(site, one.State, cmp.Or(ahead(one.Until, now), "-"), cmp.Or(one.Why, "-"))
		}
		t.write(w)
	}
	if s.Waiting == nil {
		return
	}
	if s.Waiting.N == 0 {
		say(w, "")
		say(w, "no request waits")
		return
	}
	more := ""
	if s.Waiting.More {
		more = "more than "
	}
	heading(w, more+number(s.Waiting.N, "request waits", "requests wait"))
	t := table{numbers: []int{1}}
	t.add("SITE", "REQUESTS", "FOR", "UNTIL")
	for _, one := range s.Waiting.List {
		t.add(one.Site, fmt.Sprint(one.N), one.For(), in(one.Until, now))
	}
	t.write(w)
}

// Describe writes each pool as a table, for people.
func (t Tokens) Describe(w io.Writer, now time.Time) {
	for _, p := range t.Pools {
		p.describe(w, now)
	}
	if len(t.Limits) == 0 {
		return
	}
	heading(w, "limits learned without a token")
	rows := table{}
	rows.add("SITE", "LIMIT", "LEFT", "RESETS")
	for _, one := range t.Limits {
		rows.add(append([]string{one.Site}, one.cells(now, "")...)...)
	}
	rows.write(w)
}

func (p Pool) describe(w io.Writer, now time.Time) {
	say(w, "")
	say(w, "pool %s: %d of %s ready", p.Name, p.Ready, number(p.Count, "token", "tokens"))
	if len(p.Tokens) == 0 {
		return
	}
	say(w, "")
	rows, several := table{numbers: []int{2, 3, 4}}, p.sites() > 1
	rows.add("TOKEN", "STATE", "USES", "REFUSED", "DENIED", "LIMIT", "LEFT", "RESETS")
	var twins []string
	for _, one := range p.Tokens {
		first := []string{one.Label, standing(one.State, one.Until, one.Why, now), fmt.Sprint(one.Uses), fmt.Sprint(one.Refusals), fmt.Sprint(one.Denials)}
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
		if len(lines) == 0 {
			lines = [][]string{{"nothing learned yet", "-", "-"}}
		}
		for i, line := range lines {
			if i > 0 {
				first = make([]string, len(first))
			}
			rows.add(append(first, line...)...)
		}
		if account := slices.Sorted(slices.Values(append([]string{one.Label}, one.Twins...))); len(account) > 1 {
			twins = append(twins, "one account: "+strings.Join(account, ", "))
		}
	}
	rows.write(w)
	if more := p.Count - len(p.Tokens); more > 0 {
		say(w, "and %s", number(more, "other", "others"))
	}
	if len(twins) > 0 {
		say(w, "")
	}
	slices.Sort(twins)
	for _, one := range slices.Compact(twins) {
		say(w, "%s", one)
	}
}

// cells are what is left of a limit, and when there is more.
func (a Announced) cells(now time.Time, site string) []string {
	name := site + a.Name()
	if others := a.others(); others != "" {
		name += "; " + others
	}
	reset := "-"
	if a.Reset.After(now) {
		reset = "in " + span(a.Reset.Sub(now))
	}
	return []string{name, a.left(), reset}
}

// standing is how a token is: "cooling for 3m12s (Retry-After)".
func standing(state string, until time.Time, why string, now time.Time) string {
	if until.After(now) {
		state += " for " + span(until.Sub(now))
	}
	if why != "" {
		state += " (" + why + ")"
	}
	return state
}

// span is a time as people write it, rounded up: what is not over is not 0.
func span(d time.Duration) string {
	d = (d + time.Second - 1).Truncate(time.Second)
	if days := d / (24 * time.Hour); days >= 2 {
		return fmt.Sprintf("%dd%dh", days, d%(24*time.Hour)/time.Hour)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// heading is a line with space around it.
func heading(w io.Writer, text string) {
	say(w, "")
	say(w, "%s", text)
	say(w, "")
}

// say writes one line.
func say(w io.Writer, format string, args ...any) {
	text := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	_, _ = io.WriteString(w, strings.Map(printable, text)+"\n")
}
