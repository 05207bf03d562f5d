package lease

import "time"

// second is the interval of rate measurement.
const second = int64(time.Second)

// horizonLeast is the minimum time that is asked for in advance.
const horizonLeast = int64(200 * time.Millisecond)

// rateMeter measures how fast units are taken: in this second, and in the one before.
type rateMeter struct {
	secondStart            int64
	busySince              int64 // since when every second had a take
	thisSecond, lastSecond int64
}

func (p *rateMeter) add(low, n int64) {
	p.advance(low)
	p.thisSecond = min(p.thisSecond+n, maxAmount)
}

func (p *rateMeter) advance(low int64) {
	switch k := (low - p.secondStart) / second; {
	case k <= 0:
	case k == 1:
		p.secondStart, p.lastSecond, p.thisSecond = p.secondStart+second, p.thisSecond, 0
	default:
		p.secondStart, p.busySince, p.lastSecond, p.thisSecond = low, low, 0, 0
	}
}

// unitsIn is how many units are taken in span at this rate.
func (p *rateMeter) unitsIn(low, span int64) int64 {
	p.advance(low)
	part := float64(second-(low-p.secondStart)) / float64(second)
	return int64((float64(p.lastSecond)*part + float64(p.thisSecond)) * float64(span) / float64(second))
}

// expectedFor is how long the rate is expected to continue: a recent start may end as soon.
func (p *rateMeter) expectedFor(low int64) int64 { return 2*(low-p.busySince) + horizonLeast }
