package page

import (
	"fmt"
	"html/template"
	"math"
	"strconv"

	bars "github.com/abide-proxy/abide/admin/chart"
	"github.com/abide-proxy/abide/status"
)

// chart is the bytes of sites in each step of a period.
type chart struct {
	Name    string
	In, Out uint64
	Drawn   template.HTML
	busy    int // steps with traffic
}

// chartOf draws a period.
func chartOf(p Period) chart {
	c, drawn := chart{Name: p.Name}, bars.Bars{Start: p.Since, Step: p.Step, Count: p.Steps, Inside: true}
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
	c.Drawn = template.HTML(drawn.SVG()) // in which all text of others is escaped
	return c
}

// spark is a line over the last minutes, in a box of Width times sparkHeight.
type spark struct {
	Line, Area string // paths, "" where there is nothing
	Width      int
	Most       float64
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
	s.Width = n - 1
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
	s.Area = s.Line + "V" + strconv.Itoa(sparkHeight) + "H0z"
	return s
}
