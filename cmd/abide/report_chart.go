package main

import (
	"fmt"
	"time"

	"github.com/abide-proxy/abide/admin/chart"
	"github.com/abide-proxy/abide/status"
)

// chartSteps are the steps of reports.
var chartSteps = map[string]time.Duration{"1m": time.Minute, "1h": time.Hour, "1d": 24 * time.Hour}

// reportChart draws the requests of a report over time. The report must have a step.
func reportChart(r status.Report) []byte {
	step := chartSteps[r.Step]
	count := int((r.Until.Sub(r.Since) + step - 1) / step)
	c := chart.Bars{
		Title: fmt.Sprintf("Requests per %s by %s, UTC", map[string]string{"1m": "minute", "1h": "hour", "1d": "day"}[r.Step], r.By),
		Start: r.Since, Step: step, Count: count,
		Format: func(n float64) string { return fmt.Sprintf("%.4g", n) },
	}
	index := map[string]int{}
	for _, row := range r.Rows {
		at := int(row.Start.Sub(r.Since) / step)
		if at < 0 || at >= count {
			continue
		}
		i, known := index[row.Name]
		if !known {
			i = len(c.Series)
			index[row.Name] = i
			c.Series = append(c.Series, chart.Series{Name: row.Name, Amounts: make([]float64, count)})
		}
		c.Series[i].Amounts[at] += float64(row.Requests)
	}
	return c.SVG()
}
