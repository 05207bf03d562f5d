package samples

import "time"

// stepOf is the number of the step that a time is in.
func stepOf(at time.Time) int64 { return at.Unix() / int64(Step/time.Second) }

// series has a number for each of the last steps. The zero value is empty.
type series struct {
	points *[Points]float32 // :: step modulo Points → its number; nil: nothing but zeros
	last   int64            // the last step that has a number
}

// at is the number of a step, which is made the last one.
func (s *series) at(step int64) *float32 {
	if s.points == nil {
		s.points, s.last = new([Points]float32), step
	}
	for next := max(s.last+1, step-Points+1); next <= step; next++ {
		s.points[next%Points] = 0
	}
	s.last = max(s.last, step)
	return &s.points[step%Points]
}

// more adds to the number of the present step.
func (s *series) more(now time.Time, n float32) {
	if n > 0 {
		*s.at(stepOf(now)) += n
	}
}

// highest raises the number of the present step to n.
func (s *series) highest(now time.Time, n float32) {
	if n > 0 {
		at := s.at(stepOf(now))
		*at = max(*at, n)
	}
}

// read are the numbers of all steps until now, times a factor, oldest first; nil where there
// are only zeros.
func (s *series) read(now time.Time, factor float32) []float32 {
	if s.points == nil {
		return nil
	}
	last, some := stepOf(now), false
	list := make([]float32, Points)
	for i := range list {
		step := last - Points + 1 + int64(i)
		if step > s.last-Points && step <= s.last {
			list[i] = s.points[step%Points] * factor
			some = some || list[i] > 0
		}
	}
	if !some {
		return nil
	}
	return list
}
