package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/status"
)

const (
	// mostColours is the number of sites of a chart with a colour of their own. The others share one.
	mostColours = 5
	// chartHeight is the height of the highest bar, chartStep the width of a step.
	chartHeight = 100
	chartStep   = 10
)

// block is the traffic of a site in one step of a chart.
type block struct {
	X, Y, Height int
	Class        string
	Title        string
}

// legendLine is a site of a chart.
type legendLine struct {
	Name, Class string
	In, Out     uint64
}

// chart is the bytes of sites in each step of a period.
type chart struct {
	Name, From, To string
	Width          int
	Blocks         []block
	Legend         []legendLine
	Most           uint64 // in a step
	StepName       string
	In, Out        uint64
	busy           int // steps with traffic
}

// siteBytes is the bytes of a site in each step.
type siteBytes struct {
	legendLine
	by []uint64
}

// chartOf draws a period.
func chartOf(p Period) chart {
	sites := bytesOf(p)
	c := chart{
		Name: p.Name, Width: chartStep * p.Steps, StepName: stepName(p.Step),
		From: stepTime(p.Since, p.Step), To: "now",
	}
	sums := make([]uint64, p.Steps)
	for _, one := range sites {
		c.Legend, c.In, c.Out = append(c.Legend, one.legendLine), c.In+one.In, c.Out+one.Out
		for i, n := range one.by {
			sums[i] += n
		}
	}
	for _, n := range sums {
		if c.Most = max(c.Most, n); n > 0 {
			c.busy++
		}
	}
	below := make([]uint64, p.Steps)
	for _, one := range sites {
		for i, n := range one.by {
			if n == 0 {
				continue
			}
			top, bottom := heightOf(below[i]+n, c.Most), heightOf(below[i], c.Most)
			below[i] += n
			c.Blocks = append(c.Blocks, block{
				X: chartStep * i, Y: chartHeight - top, Height: max(top-bottom, 1), Class: one.Class,
				Title: fmt.Sprintf("%s, from %s: %s", one.Name, stepTime(p.Since.Add(time.Duration(i)*p.Step), p.Step), status.Size(n)),
			})
		}
	}
	return c
}

// heightOf returns the height of so many bytes in a chart.
func heightOf(n, most uint64) int {
	return int(float64(n) / float64(max(most, 1)) * chartHeight)
}

// bytesOf are the sites of a period, those with the most bytes first, and the others as one.
func bytesOf(p Period) []*siteBytes {
	sites := map[string]*siteBytes{}
	for _, one := range p.Traffic {
		i := int(one.Start.Sub(p.Since) / p.Step)
		if one.Start.Before(p.Since) || i >= p.Steps {
			continue
		}
		s := sites[one.Site]
		if s == nil {
			s = &siteBytes{legendLine: legendLine{Name: one.Site}, by: make([]uint64, p.Steps)}
			sites[one.Site] = s
		}
		in, out := uint64(max(one.In, 0)), uint64(max(one.Out, 0))
		s.In, s.Out = s.In+in, s.Out+out
		s.by[i] += in + out
	}
	all := slices.SortedFunc(maps.Values(sites), func(a, b *siteBytes) int {
		return cmp.Or(cmp.Compare(b.In+b.Out, a.In+a.Out), cmp.Compare(a.Name, b.Name))
	})
	if len(all) > mostColours+1 {
		rest := all[mostColours]
		rest.Name = status.Number(len(all)-mostColours, "other site", "other sites")
		for _, one := range all[mostColours+1:] {
			rest.In, rest.Out = rest.In+one.In, rest.Out+one.Out
			for i, n := range one.by {
				rest.by[i] += n
			}
		}
		all = all[:mostColours+1]
	}
	for i, one := range all {
		one.Class = fmt.Sprint("c", i)
	}
	return all
}

// stepName is a step in words.
func stepName(step time.Duration) string {
	switch step {
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return "day"
}

// stepTime formats the beginning of a step.
func stepTime(at time.Time, step time.Duration) string {
	if step >= 24*time.Hour {
		return at.UTC().Format("2 January")
	}
	return at.UTC().Format("15:04 UTC")
}
