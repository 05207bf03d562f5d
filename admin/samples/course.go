package samples

import "time"

// Counters are the counts of a site since the start.
type Counters struct{ Requests, In, Out uint64 }

func (c *Counters) add(other Counters) {
	c.Requests, c.In, c.Out = c.Requests+other.Requests, c.In+other.In, c.Out+other.Out
}

// since returns the counts after earlier counters. Counters that fell began anew.
func (c Counters) since(earlier Counters) Counters {
	return Counters{risen(c.Requests, earlier.Requests), risen(c.In, earlier.In), risen(c.Out, earlier.Out)}
}

func risen(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// Rate is something per second.
type Rate struct{ Requests, In, Out float64 }

// Course has the rates of a site: Now is the rate of the last seconds, Requests has the rate of each
// step that is over, oldest first. It is nil where there was nothing.
type Course struct {
	Now      Rate
	Requests []float32 // per second
}

// rateOver is the number of samples of the present rate.
const rateOver = 5

// course has the samples of a site. The zero value is empty.
type course struct {
	began    bool
	last     Counters
	end      time.Time          // of last
	counted  [rateOver]Counters // each since the sample before
	took     [rateOver]time.Duration
	next     int // in counted and took
	requests series
}

// add adds a sample. The first says where counting begins.
func (c *course) add(now time.Time, counters Counters) {
	if c.began {
		more := counters.since(c.last)
		c.counted[c.next], c.took[c.next] = more, now.Sub(c.end)
		c.next = (c.next + 1) % rateOver
		c.requests.more(now, float32(more.Requests))
	}
	c.began, c.last, c.end = true, counters, now
}

// read is the course until now.
func (c *course) read(now time.Time) Course {
	return Course{Now: c.rate(now), Requests: c.requests.read(now.Add(-Step), 1/float32(Step.Seconds()))}
}

// rate is the rate of the last samples, zero where they are long past.
func (c *course) rate(now time.Time) (r Rate) {
	var sum Counters
	var took time.Duration
	for i := range c.counted {
		sum.add(c.counted[i])
		took += c.took[i]
	}
	if took <= 0 || now.Sub(c.end) > Step {
		return r
	}
	seconds := took.Seconds()
	return Rate{float64(sum.Requests) / seconds, float64(sum.In) / seconds, float64(sum.Out) / seconds}
}
