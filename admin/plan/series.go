package plan

import "time"

const (
	// mostPeriods is how many periods a series has at most. One more makes them longer.
	mostPeriods = 1024
	// mostBars is how many bars a chart has at most.
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
		s.lengthen()
		i = int64(at.Sub(s.start) / periods[s.size])
	}
	for int64(len(s.counts)) <= i {
		s.counts = append(s.counts, 0)
	}
	s.counts[i]++
}

// lengthen makes each few periods one.
func (s *series) lengthen() {
	few := int(periods[s.size+1] / periods[s.size])
	s.counts, s.size = sums(s.counts, few), s.size+1
}

// sums are the sums of each few counts.
func sums(counts []int64, few int) []int64 {
	list := make([]int64, (len(counts)+few-1)/few)
	for i, n := range counts {
		list[i/few] += n
	}
	return list
}

// barLength is how long a bar is.
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
