package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// count is a counter as it was at one time. Its labels are in order of their names, and
// many counts share them, so that a scrape of many sites formats few.
type count struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc is prometheus.Metric's.
func (c *count) Desc() *prometheus.Desc { return c.desc }

// Write is prometheus.Metric's.
func (c *count) Write(to *dto.Metric) error {
	to.Label, to.Counter = c.labels, &dto.Counter{Value: &c.value}
	return nil
}

func pairOf(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: ptr(name), Value: ptr(value)}
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

// codePair is the label of a status.
func codePair(hundred, rest int) *dto.LabelPair { return codePairs[hundred][rest] }
