package bandwidth

import (
	"math/rand/v2"
	"testing"
)

func TestTheUsualSizeIsTheMedian(t *testing.T) {
	s := &New(Options{}).Sizes
	if got := s.Usual("a.test"); got != 16<<10 {
		t.Errorf("before any answer: %d", got)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := int64(3000) // two of three
		if random.IntN(3) == 0 {
			n = 50 << 20
		}
		s.Add("a.test", n)
	}
	if got := s.Usual("a.test"); got != 4096 {
		t.Errorf("the median is 3000, and 4096 above it; got %d", got)
	}
	for range 200 {
		s.Add("small.test", 10)
		s.Add("large.test", 1<<30)
	}
	if small, large := s.Usual("small.test"), s.Usual("large.test"); small != 1<<10 || large != 64<<10 {
		t.Errorf("the bounds: %d and %d", small, large)
	}
}
