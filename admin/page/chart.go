package page

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	bars "github.com/abide-proxy/abide/admin/chart"
	"github.com/abide-proxy/abide/status"
)

// chart is the bytes of sites in each step of a period.
type chart struct {
	In, Out uint64
	Drawn   markup
	busy    int // steps with traffic
}

// chartOf draws a period.
func chartOf(p Period) chart {
	c, drawn := chart{}, bars.Bars{Start: p.Since, Step: p.Step, Count: p.Steps, Inside: true}
	busy := map[int]bool{} // :: step
	for _, one := range p.Traffic {
		in, out := uint64(max(one.In, 0)), uint64(max(one.Out, 0))
		if step := drawn.Add(one.Site, one.Start, float64(in+out)); step >= 0 {
			c.In, c.Out = c.In+in, c.Out+out
			if in+out > 0 {
				busy[step] = true
			}
		}
	}
	c.busy = len(busy)
	drawn.Title = fmt.Sprintf("Last %s: %s received, %s sent", p.Name, status.Size(c.In), status.Size(c.Out))
	drawn.Format = func(n float64) string { return status.Size(uint64(n)) }
	c.Drawn = markup(drawn.SVG()) // in which all text of others is escaped
	return c
}

// spark is a line over the last minutes, one unit for each, in a box of sparkHeight.
type spark struct {
	Line string // a path, "" where there is nothing
	Most float64
}

// sparkHeight is the height of the highest point.
const sparkHeight = 20

// sparkOf is the line through points, or through the means of every few of them.
func sparkOf(points []float32, every int) spark {
	var s spark
	n := len(points) / every
	if n < 2 {
		return s
	}
	means := make([]float64, n)
	for i := range means {
		for _, one := range points[i*every : (i+1)*every] {
			means[i] += float64(one) / float64(every)
		}
		s.Most = max(s.Most, means[i])
	}
	y := func(i int) int {
		if s.Most <= 0 {
			return sparkHeight
		}
		return sparkHeight - int(math.Ceil(means[i]/s.Most*sparkHeight))
	}
	path := append([]byte("M0 "), strconv.Itoa(y(0))...)
	for i := 1; i < n; i++ {
		path = strconv.AppendInt(append(path, "l1 "...), int64(y(i)-y(i-1)), 10)
	}
	s.Line = string(path)
	return s
}

// svg is the line, and what is below it.
func (s spark) svg() part {
	return html(`<svg class="spark" viewBox="0 -1 {} 22" preserveAspectRatio="none" aria-hidden="true">{}{}</svg>`, cmp.Or(strings.Count(s.Line, "l"), 89),
		some(s.Line == "", `<path class="curve none" d="M0 20h89"/>`), some(s.Line != "", `<path class="area" d="{}V20H0z"/><path class="curve" d="{}"/>`, s.Line, s.Line))
}

const (
	empty markup = `<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="ground" width="100" height="6"/><rect class="fill"`
	// bar is a bar of which so many hundredths are filled.
	bar = empty + ` width="{}" height="6"/></svg>`
)

// left is a bar of what is left, as the text beside it. Used is in hundredths; -1: not known.
func left(used int) part {
	return some(used >= 0, empty+` x="-{}" width="100" height="6"/></svg>`, used)
}
