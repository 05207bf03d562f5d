package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counterSnapshot is a counter at one time. Its labels are sorted by name and shared by
// many counters, so that a scrape of many sites formats few.
type counterSnapshot struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc implements prometheus.Metric.
func (c *counterSnapshot) Desc() *prometheus.Desc { return c.desc }

// Write implements prometheus.Metric.
func (c *counterSnapshot) Write(to *dto.Metric) error {
	to.Label, to.Counter = c.labels, &dto.Counter{Value: &c.value}
	return nil
}

// move adds what is in one counter to another and leaves nothing behind.
func move(from, to *atomic.Uint64) {
	if n := from.Swap(0); n > 0 {
		to.Add(n)
	}
}

func pairOf(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: new(name), Value: new(value)}
}

var (
	directionIn, directionOut = pairOf("direction", "in"), pairOf("direction", "out")

	methodPairs = func() (all [len(methods)]*dto.LabelPair) {
		for i, method := range methods {
			all[i] = pairOf("method", method)
		}
		return all
	}()
	codePairs = func() (all [6][100]*dto.LabelPair) {
		for hundred := range all {
			for rest := range all[hundred] {
				all[hundred][rest] = pairOf("code", codeLabel(hundred, rest))
			}
		}
		return all
	}()
)
