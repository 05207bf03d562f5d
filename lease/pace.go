package lease

import "time"

// second is over which time a pace is measured.
const second = int64(time.Second)

// pace is how fast units are taken: in this second, and in the one before.
type pace struct {
	begun     int64
	from      int64 // since when there is no second without any
	now, then int64
}

func (p *pace) add(low, n int64) {
	p.turn(low)
	p.now = min(p.now+n, most)
}

func (p *pace) turn(low int64) {
	switch k := (low - p.begun) / second; {
	case k <= 0:
	case k == 1:
		p.begun, p.then, p.now = p.begun+second, p.now, 0
	default:
		p.begun, p.from, p.then, p.now = low, low, 0, 0
	}
}

// in is how many units a length of time takes at this pace.
func (p *pace) in(low, span int64) int64 {
	p.turn(low)
	part := float64(second-(low-p.begun)) / float64(second)
	return int64((float64(p.then)*part + float64(p.now)) * float64(span) / float64(second))
}

// lasts is for how long the pace may be expected to go on: what has just begun may end
// as soon.
func (p *pace) lasts(low int64) int64 { return 2*(low-p.from) + horizonLeast }
