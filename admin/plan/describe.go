package plan

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// Describe writes the result for people, without its what-ifs.
func (r *Result) Describe(w io.Writer) {
	var t status.Table
	line := func(name, format string, args ...any) { t.Add(name, fmt.Sprintf(format, args...)) }
	r.describeEnd(line)
	r.describeThroughput(line)
	r.describeCauses(line)
	if r.Waits.Longest > 0 {
		line("waits", "%s on average, %s at most", lengthOf(r.Waits.Average), lengthOf(r.Waits.Longest))
	}
	line("refusals", "%s", r.Refusals.text())
	name := "note"
	for _, one := range r.Notes {
		t.Add(name, one)
		name = ""
	}
	t.Write(w)
}

func (r *Result) describeEnd(line func(name, format string, args ...any)) {
	if r.Answered == 0 {
		line("ends", "never: no request is answered")
		return
	}
	line("ends", "in %s, at %s", lengthOf(r.Seconds), r.End.UTC().Format("2006-01-02 15:04:05 UTC"))
	of := ""
	if r.Recorded > 0 {
		of = " of the log, which took " + lengthOf(r.Recorded)
	}
	line("", "%s%s", requestsText(r.Answered), of)
	if !r.Finished {
		line("", "without %s: see the note", requestsText(r.Requests-r.Answered))
	}
}

func requestsText(n int) string {
	if n == 1 {
		return "1 request"
	}
	return status.Count(uint64(n)) + " requests"
}

func (r *Result) describeThroughput(line func(name, format string, args ...any)) {
	switch {
	case r.Answered == 0:
		return
	case r.Seconds <= 0:
		line("throughput", "not limited")
		return
	}
	line("throughput", "%s on average", status.RateText(r.PerSecond))
	if len(r.Throughput) < 2 {
		return
	}
	most := 0.0
	for _, bar := range r.Throughput {
		most = max(most, bar.PerSecond)
	}
	var chart strings.Builder
	for _, bar := range r.Throughput {
		chart.WriteString(barOf(bar.PerSecond / most))
	}
	line("", "%s", chart.String())
	line("", "each bar is %s, a full one %s", lengthOf(r.Throughput[0].Seconds), status.RateText(most))
}

// bars are a chart's bars from empty to full.
var bars = []string{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

// barOf is the bar of a part, from 0 to 1. Only nothing is empty.
func barOf(part float64) string {
	if part <= 0 {
		return bars[0]
	}
	return bars[min(max(int(math.Round(part*8)), 1), 8)]
}

func (r *Result) describeCauses(line func(name, format string, args ...any)) {
	const mostCauses = 5     // the largest number of causes that are listed
	const leastShare = 0.005 // the least share of a cause that is told to people
	name := "limited by"
	sites := slices.DeleteFunc(lists.Map(r.LimitedBy, func(c Cause) string { return c.Site }), func(site string) bool { return site == "" })
	several := len(sites) > 0 && slices.Max(sites) != slices.Min(sites)
	for i, c := range r.LimitedBy {
		if i > 0 && (c.Share < leastShare || i >= mostCauses) {
			break
		}
		line(name, "%3.0f %%  %s", 100*c.Share, c.text(several))
		name = ""
	}
	if name != "" {
		line(name, "nothing")
	}
}

// text is the cause for people.
func (c Cause) text(several bool) string {
	text := status.LimitName(c.Limit)
	switch {
	case c.Kind == BySite:
		return "the time that answers take"
	case c.Kind == ByClient:
		return "the clients, between an answer and the next request"
	case c.Learned:
		text = "what abide learns of the site's limit: " + c.Limit
	}
	if several {
		text += " at " + c.Site
	}
	return text
}

// text is the refusals for people.
func (r Refusals) text() string {
	list := []string{status.Count(uint64(r.Site)) + " expected from the site"}
	for _, one := range []struct {
		n    int
		what string
	}{
		{r.PassedOn, "of these passed on to clients"},
		{r.Abide, "from abide for now"},
		{r.Never, "from abide for good"},
		{r.Cut, "answers cut"},
	} {
		if one.n > 0 {
			list = append(list, status.Count(uint64(one.n))+" "+one.what)
		}
	}
	return strings.Join(list, ", ")
}

// DescribeWhatIfs writes the what-ifs for people.
func (r *Result) DescribeWhatIfs(w io.Writer) {
	if len(r.WhatIfs) == 0 {
		return
	}
	t := status.Table{}
	t.Add("WHAT IF", "ENDS IN", "DIFFERENCE")
	for _, one := range r.WhatIfs {
		ends := lengthOf(one.Seconds)
		if !one.Finished {
			ends = "not all answered"
		}
		t.Add(one.Change, ends, one.difference(r.Seconds))
	}
	t.Write(w)
}

// difference describes by how much sooner or later the changed scenario ends.
func (f WhatIf) difference(whole float64) string {
	const same = 0.005 // the part of the whole time up to which two ends are the same
	text := "the same"
	switch {
	case !f.Finished:
		return ""
	case f.Sooner > same*whole:
		text = fmt.Sprintf("%s sooner (%.0f %%)", lengthOf(f.Sooner), 100*f.Sooner/whole)
	case f.Sooner < -same*whole:
		text = lengthOf(-f.Sooner) + " later"
	}
	if f.Refusals.Site > 0 {
		text += ", " + status.Count(uint64(f.Refusals.Site)) + " refusals from the site"
	}
	if f.Refusals.Abide > 0 {
		text += ", " + status.Count(uint64(f.Refusals.Abide)) + " from abide"
	}
	return text
}

// lengthOf is a length of time in seconds, for people: "11 d 13 h".
func lengthOf(seconds float64) string {
	d := status.DurationOf(seconds).Round(time.Second)
	switch {
	case seconds < 0.9995:
		return fmt.Sprintf("%.0f ms", math.Round(1000*seconds))
	case seconds < 9.95:
		return fmt.Sprintf("%.2g s", seconds)
	case d >= day:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	}
	return status.Long(d)
}
