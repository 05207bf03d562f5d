package page

import (
	"fmt"
	"html/template"
	"maps"
	"slices"

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
	by, sums := map[string][]float64{}, make([]float64, p.Steps)
	for _, one := range p.Traffic {
		i := int(one.Start.Sub(p.Since) / p.Step)
		if one.Start.Before(p.Since) || i >= p.Steps {
			continue
		}
		if by[one.Site] == nil {
			by[one.Site] = make([]float64, p.Steps)
		}
		in, out := uint64(max(one.In, 0)), uint64(max(one.Out, 0))
		c.In, c.Out = c.In+in, c.Out+out
		if sums[i] == 0 && in+out > 0 {
			c.busy++
		}
		sums[i] += float64(in + out)
		by[one.Site][i] += float64(in + out)
	}
	for _, site := range slices.Sorted(maps.Keys(by)) {
		drawn.Series = append(drawn.Series, bars.Series{Name: site, Amounts: by[site]})
	}
	drawn.Title = fmt.Sprintf("Last %s: %s received, %s sent", p.Name, status.Size(c.In), status.Size(c.Out))
	drawn.Format = func(n float64) string { return status.Size(uint64(n)) }
	c.Drawn = template.HTML(drawn.SVG()) // in which all text of others is escaped
	return c
}
