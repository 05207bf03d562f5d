package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is one run, as RESULTS.md shows it.
type report struct {
	When     time.Time
	Machine  string
	Versions []string // "squid 5.7"
	Absent   []string // "nginx is not installed"
	Pinned   bool
	Pace     pace
	Quick    bool
	Results  []result
}

// markdown is the whole report.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# abide beside its peers\n\n")
	fmt.Fprintf(&b, "One run of `make bench` on %s: %s. Peers: %s.", r.When.UTC().Format("2 January 2006"), r.Machine, strings.Join(r.Versions, ", "))
	if len(r.Absent) > 0 {
		fmt.Fprintf(&b, " Missing: %s.", strings.Join(r.Absent, ", "))
	}
	fmt.Fprintf(&b, "\n\n%s\n\n", r.method())
	r.targets(&b)
	for i := range r.Results {
		table(&b, &r.Results[i])
	}
	return b.String()
}

func (r *report) method() string {
	where := "Nothing is pinned."
	if r.Pinned {
		where = "Each proxy has one core to itself; generator and origin share the others, but for latency and isolation, where nothing is pinned, because waking another core would be most of it."
	}
	text := fmt.Sprintf("%d interleaved rounds after a warm-up (more where a difference is small), medians and (min–max), all on loopback, nothing cached. %s "+
		"CPU is user and system time of the proxy's own processes, divided by the requests that the origin counted. "+
		"A sample in which others used more than %.0f %% of the machine is taken once more, and dropped if that is no better; "+
		"figures marked ~ had too few quiet ones. Read the columns as ratios. "+
		"goproxy is as it comes, with the two idle connections for a host that http.Transport keeps; goproxy+pool keeps 256. "+
		"abide has no limits; abide+limits has one of every kind on the site that is asked, and each request takes from all of them; abide+concurrency has one of requests in flight, without which it would send few at once to a site that has not answered yet. "+
		"The noise of a p99 is how far apart it lies in rounds that measure the same.", r.Pace.rounds, where, noisyFrom*100)
	if r.Quick {
		text += " **A quick run: it shows that the bench works, and its figures mean nothing.**"
	}
	return text
}

// targets writes what abide promises and whether it holds.
func (r *report) targets(b *strings.Builder) {
	b.WriteString("## Targets\n\n| what | abide | beside | ratio | target | |\n| --- | ---: | ---: | ---: | --- | --- |\n")
	for _, t := range targets {
		v := t.judge(r.Results)
		beside := "–"
		if v.peer != "" {
			beside = v.peer + " " + number(v.beside, v.digits, v.unit)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n",
			v.what, number(v.abide, v.digits, v.unit), beside, number(v.ratio, 2, ""), v.limit, v.says)
	}
}

// table writes one scenario. Ratios are of its first figure, to that of the first peer that
// is abide.
func table(b *strings.Builder, r *result) {
	fmt.Fprintf(b, "\n## %s\n\n`-only %s`\n\n| |", r.title, r.name)
	for _, f := range r.figures {
		b.WriteString(" " + f.title + " |")
	}
	b.WriteString(" abide ÷ it | quiet samples |\n| --- |" + strings.Repeat(" ---: |", len(r.figures)+2) + "\n")
	first, asterisk := median(r.figures[0]), ""
	if i := slices.IndexFunc(r.Series, func(s *series) bool { return strings.HasPrefix(s.Peer, "abide") }); i >= 0 {
		asterisk = r.Series[i].Peer
	}
	for _, s := range r.Series {
		mark := ""
		if s.Noisy {
			mark = " ~"
		}
		fmt.Fprintf(b, "| %s%s |", s.Peer, mark)
		for _, f := range r.figures {
			if s.Fault != "" {
				b.WriteString(" – |")
				continue
			}
			fmt.Fprintf(b, " %s |", withRange(s.of(f.of), f.digits))
		}
		fmt.Fprintf(b, " %s | %d of %d |\n", number(first(r, asterisk)/first(r, s.Peer), 2, ""), s.Quiet, s.taken())
	}
	for _, s := range r.Series {
		if s.Fault != "" {
			fmt.Fprintf(b, "\n%s: fault: %s\n", s.Peer, strings.Join(strings.Fields(s.Fault), " "))
		}
	}
}

func withRange(s spread, digits int) string {
	if math.IsNaN(s.Median) {
		return "–"
	}
	text := number(s.Median, digits, "")
	if low, high := number(s.Min, digits, ""), number(s.Max, digits, ""); low != high {
		text += " (" + low + "–" + high + ")"
	}
	return text
}

// number is a dash for what is not known.
func number(v float64, digits int, unit string) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if unit != "" {
		text += " " + unit
	}
	return text
}
