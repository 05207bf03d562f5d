package main

import (
	"math"
	"slices"
	"time"
)

// sample is one measurement of one peer.
type sample struct {
	Requests  int64 // answered in full, and counted at the origin as well
	Bytes     int64
	Took      time.Duration
	CPU       time.Duration // of the proxy's processes alone
	P50, P99  time.Duration
	FromProxy int64   // connections that the origin saw
	Held      int64   // requests in flight when memory was read
	Growth    int64   // of resident memory while they were held, bytes
	Others    float64 // share of the machine's CPU time that went to neither the bench nor its peers
}

// noisyFrom is the share of the machine from which others make a sample
// worthless. The rounding of CPU times in /proc is about half of it.
const noisyFrom = 0.04

func (s sample) noisy() bool { return s.Others > noisyFrom }

// spread is what several rounds gave.
type spread struct {
	Median, Min, Max float64
}

// spreadOf leaves out what is not a number; without any value it is NaN.
func spreadOf(values []float64) spread {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(values)
	n := len(values)
	median := values[n/2]
	if n%2 == 0 {
		median = (values[n/2-1] + median) / 2
	}
	return spread{Median: median, Min: values[0], Max: values[n-1]}
}

// series is what all rounds of one peer in one scenario gave.
type series struct {
	Peer    string
	Samples []sample
	Dropped int    // samples left out because others used the machine
	Quiet   int    // samples in which they did not
	Noisy   bool   // too few of those: noisy ones were used as well
	Fault   string // why there are no figures; empty when there are
}

// settle keeps the quiet samples, or all when fewer than half are quiet: figures
// in doubt are better than none when they say so.
func (s *series) settle() {
	quiet := slices.DeleteFunc(slices.Clone(s.Samples), sample.noisy)
	s.Quiet = len(quiet)
	if 2*len(quiet) >= len(s.Samples) {
		s.Dropped += len(s.Samples) - len(quiet)
		s.Samples = quiet
		return
	}
	s.Noisy = true
}

// taken is how many samples were taken in all.
func (s *series) taken() int { return len(s.Samples) + s.Dropped }

// of is the spread of one figure over the samples.
func (s *series) of(f func(sample) float64) spread {
	var values []float64
	for _, one := range s.Samples {
		values = append(values, f(one))
	}
	return spreadOf(values)
}
