package plan

import (
	"slices"
	"time"
)

// tally counts what happens in a simulation.
type tally struct {
	series   series
	answered int
	last     time.Time // when the last request was answered
	waited   time.Duration
	longest  time.Duration // that a request has waited

	latency time.Duration // that sites took to answer, in all
	thought time.Duration // between an answer and the next request, in all
	blocked map[blame]time.Duration

	passedOn int // refusals of sites that clients got to see
	cut      int // bodies that a limit of bytes has cut
	refusals map[refusalKey]int
	nevers   map[string]int // requests that abide refused for good, by the reason
}

// blame names a limit that held requests, and its site.
type blame struct{ site, limit string }

// refusalKey names a reason for which abide refused requests.
type refusalKey struct{ reason, limit string }

// answer counts a request that is answered, after it has waited for so long.
func (t *tally) answer(now time.Time, waited time.Duration) {
	t.answered++
	t.last = now
	t.waited += waited
	t.longest = max(t.longest, waited)
	t.series.add(now)
}

// block counts time that a request had to wait.
func (t *tally) block(site, limit string, d time.Duration) {
	if d > 0 {
		t.blocked[blame{site, limit}] += d
	}
}

// count counts by a key, or by one for the others where there are too many.
func count[K comparable](counts map[K]int, key, others K) {
	const mostReasons = 1000 // bounds the reasons of refusals that are told apart
	if _, known := counts[key]; !known && len(counts) >= mostReasons {
		key = others
	}
	counts[key]++
}

// mostBars is the largest number of bars of a chart. One more makes them longer.
const mostBars = 60

const day = 24 * time.Hour

// barLengths are the lengths that bars of a chart can have. Each divides the next, and most are those of usual windows, so
// that each bar has as many windows as the next.
var barLengths = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
	15 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
	6 * time.Hour, 12 * time.Hour, day, 7 * day, 14 * day, 28 * day, 56 * day, 112 * day,
}

// Bar is the answers in a part of the time.
type Bar struct {
	At        time.Time `json:"at"`
	Seconds   float64   `json:"seconds"`
	Requests  int64     `json:"requests"`
	PerSecond float64   `json:"per_second"`
}

// series counts answers in bars of equal length.
type series struct {
	start  time.Time
	size   int // index in barLengths
	counts []int64
}

// add counts an answer. Answers come in the order of time.
func (s *series) add(at time.Time) {
	i := int(at.Sub(s.start) / barLengths[s.size])
	for i >= mostBars && s.size < len(barLengths)-1 {
		few := int(barLengths[s.size+1] / barLengths[s.size]) // that become one
		var sums []int64
		for part := range slices.Chunk(s.counts, few) {
			sum := int64(0)
			for _, n := range part {
				sum += n
			}
			sums = append(sums, sum)
		}
		s.counts, s.size = sums, s.size+1
		i = int(at.Sub(s.start) / barLengths[s.size])
	}
	for len(s.counts) <= i {
		s.counts = append(s.counts, 0)
	}
	s.counts[i]++
}

// bars are the counts. A single bar ends with the last answer.
func (s *series) bars(end time.Time) []Bar {
	length := barLengths[s.size]
	list := []Bar{}
	for i, n := range s.counts {
		bar := Bar{At: s.start.Add(time.Duration(i) * length), Seconds: length.Seconds(), Requests: n}
		if len(s.counts) == 1 {
			bar.Seconds = max(end.Sub(s.start), time.Millisecond).Seconds()
		}
		bar.PerSecond = float64(n) / bar.Seconds
		list = append(list, bar)
	}
	return list
}
