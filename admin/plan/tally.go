package plan

import (
	"time"

	"github.com/abide-proxy/abide/proxy/problem"
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

// mostReasons bounds the reasons of refusals that are told apart.
const mostReasons = 1000

// refuse counts a refusal of abide that a client repeats.
func (t *tally) refuse(refused *problem.Problem) {
	key := refusalKey{refused.Title, refused.Limit}
	if _, known := t.refusals[key]; !known && len(t.refusals) >= mostReasons {
		key.limit = ""
	}
	t.refusals[key]++
}

// never counts a request that abide refuses for good.
func (t *tally) never(site string, err error) {
	text := site + ": " + err.Error()
	if _, known := t.nevers[text]; !known && len(t.nevers) >= mostReasons {
		text = "others"
	}
	t.nevers[text]++
}

const (
	// mostPeriods is the largest number of periods of a series. One more makes them longer.
	mostPeriods = 1024
	// mostBars is the largest number of bars of a chart.
	mostBars = 60

	day = 24 * time.Hour
)

// periods are the lengths that periods of a series can have. Each divides the next.
var periods = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second,
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, day, 7 * day, 28 * day,
}

// barLengths are the lengths that bars of a chart can have, if the periods divide them:
// those of usual windows, so that each bar has as many windows as the next.
var barLengths = []time.Duration{
	10 * time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 90 * time.Minute, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 56 * day,
}

// Bar is the answers in a part of the time.
type Bar struct {
	At        time.Time `json:"at"`
	Seconds   float64   `json:"seconds"`
	Requests  int64     `json:"requests"`
	PerSecond float64   `json:"per_second"`
}

// series counts answers in periods of equal length.
type series struct {
	start  time.Time
	size   int // index in periods
	counts []int64
}

// add counts an answer. Answers come in the order of time.
func (s *series) add(at time.Time) {
	i := int64(at.Sub(s.start) / periods[s.size])
	for i >= mostPeriods && s.size < len(periods)-1 {
		few := int(periods[s.size+1] / periods[s.size]) // that become one
		s.counts, s.size = sums(s.counts, few), s.size+1
		i = int64(at.Sub(s.start) / periods[s.size])
	}
	for int64(len(s.counts)) <= i {
		s.counts = append(s.counts, 0)
	}
	s.counts[i]++
}

// sums are the sums of each few counts.
func sums(counts []int64, few int) []int64 {
	list := make([]int64, (len(counts)+few-1)/few)
	for i, n := range counts {
		list[i/few] += n
	}
	return list
}

// barLength returns the length of a bar.
func (s *series) barLength() time.Duration {
	period := periods[s.size]
	whole := time.Duration(len(s.counts)) * period
	for _, length := range barLengths {
		if length*mostBars >= whole && length%period == 0 {
			return length
		}
	}
	return barLengths[len(barLengths)-1]
}

// bars are the counts in at most mostBars periods. A single bar ends with the last answer.
func (s *series) bars(end time.Time) []Bar {
	length := s.barLength()
	list := []Bar{}
	for i, n := range sums(s.counts, int(length/periods[s.size])) {
		list = append(list, Bar{At: s.start.Add(time.Duration(i) * length), Seconds: length.Seconds(), Requests: n})
	}
	if len(list) == 1 {
		list[0].Seconds = max(end.Sub(s.start), time.Millisecond).Seconds()
	}
	for i := range list {
		list[i].PerSecond = float64(list[i].Requests) / list[i].Seconds
	}
	return list
}
