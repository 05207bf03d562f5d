//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// report is all that was found.
type report struct {
	When      time.Time
	Quick     bool
	Shares    []sharing
	Bodies    []bodied
	Announced []announced
	Virtual   []crawled
	Starts    []started
	Faults    []suffered
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A fleet\n\nWritten by `make fleet` on %s: %d cores, %s, %s.", r.When.Format("2 January 2006"), runtime.NumCPU(), runtime.Version(), redisVersion())
	if r.Quick {
		b.WriteString(" **A quick run: it shows that the program works.**")
	}
	b.WriteString("\n\nAll is on one machine, so an aligned window is the same for Redis and for the origin, which counts each request when its bytes arrive in the kernel. " +
		"Where a window had too much, the number in parentheses is what is left of that when requests that came within 250 ms after a window began may belong to the one before, if that has room for them: on a machine that is busy with other things some are late.\n")
	r.shares(&b)
	r.bodies(&b)
	r.announced(&b)
	r.virtual(&b)
	r.starts(&b)
	r.faults(&b)
	return b.String()
}

func (r *report) shares(b *strings.Builder) {
	if len(r.Shares) == 0 {
		return
	}
	b.WriteString("\n## Processes\n\nReal abides on a real Redis. Five crawlers fetch about 50 pages each at one abide, four at a time, and then go on at another; together they want 1.6 times what the limit allows. " +
		"*Most* is the most in any window, of the clock for `fixed`, and in any interval for `rolling`. Store operations are runs of the script; those that only say that an abide is there are left out. " +
		"*Added* is what a request takes more than without a proxy when less is wanted than the limit allows.\n\n" +
		"| processes | limit | requests | most | limit | over | used | store operations per request | script | added, p50 | p99 |\n| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, s := range r.Shares {
		who, per, script := fmt.Sprint(s.processes), fmt.Sprintf("%.2f", s.perOne), micros(s.script)
		if s.processes == 0 {
			who, per, script = "1, no store", "–", "–"
		}
		half, far := millis(s.half), millis(s.far)
		if s.far == 0 {
			half, far = "–", "–"
		}
		fmt.Fprintf(b, "| %s | `%s` | %d | %d | %d | %s | %s | %s | %s | %s | %s |\n",
			who, s.budget.yaml, s.served, s.most, s.budget.amount, above(s.over, s.beyond, s.budget.rolling), percent(s.used), per, script, half, far)
	}
	for _, s := range r.Shares {
		if s.failed > 0 {
			fmt.Fprintf(b, "\n%d processes, `%s`: %d requests failed.\n", s.processes, s.budget.yaml, s.failed)
		}
	}
}

func (r *report) bodies(b *strings.Builder) {
	if len(r.Bodies) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Many bodies at once\n\n%d requests are under way at any time, at as many abides on one Redis, and what passes is counted in the kernel: what the other side has acknowledged of what the origin sent, and what came to the origin. "+
		"*Most* is the most in any window of the clock, from the first on.\n\n"+
		"| instances | limit | requests are | ended | most | over | used |\n| ---: | --- | --- | ---: | ---: | ---: | ---: |\n", atOnce)
	for _, m := range r.Bodies {
		fmt.Fprintf(b, "| %d | `%s` | %s | %d | %d | %s | %s |\n", m.instances, m.budget.yaml, m.way, m.served, m.most, percent(max(m.over(), 0)), percent(m.used))
	}
}

func (r *report) virtual(b *strings.Builder) {
	if len(r.Virtual) == 0 {
		return
	}
	b.WriteString("\n## In virtual time\n\nThe real accounts, the real store and its script on a real redis-server, whose script is told the time; between them a network of 0.3 to 0.8 ms each way. " +
		"Sessions are about 50 requests at one instance, four at a time, 200 ms each. DESIGN.md has 0.33 to 0.5 operations per request and at least 97 % used at 100 instances.\n\n" +
		"| instances | sessions at once | limit | requests | over | used | worst window | store operations per request | server per request |\n| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range r.Virtual {
		name := ""
		if c.name != "" {
			name = ", " + c.name
		}
		worst := percent(c.Worst)
		fmt.Fprintf(b, "| %d | %d | `%s`%s | %d | %d | %s | %s | %.2f | %s |\n",
			c.instances, c.sessions, c.yaml, name, c.Requests, c.over, percent(c.Utilisation), worst, c.PerRequest, micros(c.script))
	}
}

func (r *report) announced(b *strings.Builder) {
	if len(r.Announced) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Limits that a site announces\n\nReal abides on a real Redis, with %d tokens. The site gives each of them %d requests in %v and says so with each answer; nothing is written down. "+
		"Crawlers want one and a half times that, for %d windows. Where it says *hidden* the site says nothing of it and only refuses, for %d windows. *Later* are refusals after the first window, *most* is what one token sent in any window, refusals included. "+
		"Without a store each abide knows only what the site answers it.\n\n"+
		"| abides | answered | refused | later | most | used |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n",
		announcedTokens, announcedAmount, announcedWindow, announcedWindows, hiddenWindows)
	for _, m := range r.Announced {
		who := fmt.Sprint(m.instances)
		if m.hidden {
			who += ", hidden"
		}
		if !m.store {
			who += ", no store"
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %s |\n", who, m.answered, m.refused, m.later, m.most, percent(m.used))
	}
}

func (r *report) starts(b *strings.Builder) {
	if len(r.Starts) == 0 {
		return
	}
	b.WriteString("\n## The first request\n\nHow long it takes, sent as soon as the process listens.\n\n| | `outage: share` | `outage: strict` |\n| --- | ---: | ---: |\n")
	for _, s := range r.Starts {
		fmt.Fprintf(b, "| %s | %s | %s |\n", s.name, waited(s.share), waited(s.strict))
	}
}

func (r *report) faults(b *strings.Builder) {
	if len(r.Faults) == 0 {
		return
	}
	b.WriteString("\n## Faults\n\nFour abides; three sites with `{requests: 200, per: 5s, as: fixed}` (where it says so, 1200 per 30 s), one with each `outage`, whose crawlers want one and a half times that. " +
		"*Over* is how many requests the worst window had too much. *During* and *after* are which part was used of all that the windows allow that the fault touched, and of the three after them. " +
		"*Next* is from the end of the fault until the next request, *as usual* until a window begins, or the one that is going on is, of which 95 % are used. " +
		"*Held* is the longest that a request took at a third site, with a limit that nobody reaches and `outage: share`: what waits there waits for the store, or for this machine. " +
		"*Hung* are requests without an answer two windows after all was well. *Said* is what an abide logged from the fault on. The clock of Redis is moved by a relay that tells each run of the script another time; clocks of abides are in the table above.\n\n" +
		"| fault | outage | over | before | during | after | next | as usual | held | failed | hung | log lines each | cores, before and then | said |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, s := range r.Faults {
		held := "–"
		if s.Outage == "share" {
			held = millis(s.Held)
		}
		said := "" // once for the sites of a fault
		if s.Outage == "share" {
			said = strings.ReplaceAll(s.Said, "|", "/")
		}
		dead := ""
		if !s.Well {
			dead = ", **not all abides answer**"
		}
		fmt.Fprintf(b, "| %s%s | %s | %s | %s | %s | %s | %s | %s | %s | %d | %d | %.1f | %.2f, %.2f | %s |\n",
			s.Fault, dead, s.Outage, above(s.Over, s.beyond, false), percent(s.Before), percent(s.During), percent(s.After),
			waited(s.Next), waited(s.Full), held, s.Failed, s.Hung, s.Lines, s.Usual, s.Cores, said)
	}
}

func redisVersion() string {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "no redis-server"
	}
	for word := range strings.FieldsSeq(string(out)) {
		if version, found := strings.CutPrefix(word, "v="); found {
			return "Redis " + version
		}
	}
	return "redis-server"
}

// above is how much was too much, and how much of that had not only come late.
func above(over, beyond int64, rolling bool) string {
	if over == 0 || rolling {
		return fmt.Sprint(over)
	}
	return fmt.Sprintf("%d (%d)", over, beyond)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

func micros(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func waited(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < 100*time.Millisecond:
		return millis(d)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
