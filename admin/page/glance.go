package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// glance is the top of the page: rates, waiting requests, limits, and the expected end.
type glance struct {
	Flow, Waiting spark
	Bytes         spark
	Limiting      []limiting
	Ends          []ending
	Summary       string
}

// limiting is a limit that holds requests.
type limiting struct {
	Site, For, Until string
	N, Share         int // Share is of all that wait, in hundredths
}

// ending is something that ends, and when.
type ending struct {
	What, When string
	Used       int // in hundredths; -1: there is nothing to use up
	Tone       string
}

// mostGlance is the largest number of lines of a box at the top.
const mostGlance = 3

func glanceOf(f *Facts, now time.Time) glance {
	g := glance{
		Flow: sparkOf(f.Samples.Total.Requests, 1), Bytes: sparkOf(f.Samples.Total.Bytes, 1), Waiting: sparkOf(f.Samples.Waiting, 1),
		Limiting: limitingOf(f, now), Ends: endsOf(f, now),
	}
	g.Summary = summaryOf(f)
	return g
}

// limitingOf are the limits that hold the most requests.
func limitingOf(f *Facts, now time.Time) (list []limiting) {
	if f.Waiting == nil {
		return nil
	}
	for _, w := range f.Waiting.List[:min(len(f.Waiting.List), mostGlance)] {
		list = append(list, limiting{w.Site, w.For(), w.Ends(now), w.N, 100 * w.N / max(f.Waiting.N, 1)})
	}
	return list
}

// endsOf says when what waits has gone, when quotas are used up, and when jobs end.
func endsOf(f *Facts, now time.Time) (list []ending) {
	if len(f.Holds) > 0 {
		list = append(list, ending{What: "the last of those that wait goes", When: lastExpected(f.Holds, now), Used: -1})
	}
	for _, job := range f.Jobs {
		if !job.Ends.IsZero() && len(list) < mostGlance {
			part := -1
			if job.Units.Total > 0 {
				part = int(100 * job.Units.Done / job.Units.Total)
			}
			list = append(list, ending{What: "job " + job.Name, When: status.In(job.Ends, now), Used: part})
		}
	}
	quotas := longForecasts(f.Forecasts)
	slices.SortStableFunc(quotas, func(a, b status.Forecast) int { return cmp.Compare(b.Part(), a.Part()) })
	for _, one := range quotas[:min(len(quotas), max(mostGlance-len(list), 0))] {
		used := int(100 * one.Part())
		list = append(list, ending{one.Site + ": " + one.Name() + ", " + one.Percent() + " used", one.Lasts(now), used, toneOf(used)})
	}
	return list
}

// lastExpected formats the time at which the last waiting request goes.
func lastExpected(holds []status.Hold, now time.Time) string {
	var last time.Time
	for i := range holds {
		at := holds[i].Expected
		if at.IsZero() {
			return "not known yet"
		}
		if at.After(last) {
			last = at
		}
	}
	return status.In(last, now)
}

// summaryOf is the state in a sentence for those who hear the page. It changes seldom, so it has
// no number that changes all the time.
func summaryOf(f *Facts) string {
	flowing, waiting := 0, map[string]bool{}
	for _, one := range f.Samples.Sites {
		if one.Now.Requests > 0 {
			flowing++
		}
	}
	for i := range f.Holds {
		waiting[f.Holds[i].Site] = true
	}
	parts := []string{fmt.Sprintf("Requests go to %s", status.Number(flowing, "site", "sites"))}
	if len(waiting) > 0 {
		parts = append(parts, "requests wait at "+status.Number(len(waiting), "site", "sites"))
	} else {
		parts = append(parts, "none waits")
	}
	if n := len(f.Pauses); n > 0 {
		parts = append(parts, status.Number(n, "site is paused", "sites are paused"))
	}
	if n := len(f.Breakers); n > 0 {
		parts = append(parts, status.Number(n, "site is broken", "sites are broken"))
	}
	ready, count := 0, 0
	for _, p := range f.Tokens.Pools {
		ready, count = ready+p.Ready, count+p.Count
	}
	if count > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s go now", ready, status.Number(count, "token can", "tokens can")))
	}
	return strings.Join(parts, "; ") + "."
}
