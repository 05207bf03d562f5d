package proxy

import (
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// What an answer is taken for before its site has answered, and the bounds of
	// what is taken for one: the logarithms to base 2 of bytes.
	firstSize, leastSize, mostSize = 14, 10, 16
	// sizeStep is how far one answer moves the median.
	sizeStep = 1.0 / 16
	// mostSizes is how many sites are remembered.
	mostSizes = 10_000
	// estimatePart is the part of a limit of bytes that one request may expect, at
	// most.
	estimatePart = 4
)

// sizes are how large answers of sites usually are: their medians, found step by
// step.
type sizes struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, float64] // :: site → logarithm of the median
}

// usual is the median of a site's answers, rounded up to a power of two.
func (s *sizes) usual(site string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := float64(firstSize)
	if s.known != nil {
		if known, ok := s.known.Get(site); ok {
			m = known
		}
	}
	return 1 << int(math.Ceil(m))
}

// heard is an answer's size.
func (s *sizes) heard(site string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known, _ = simplelru.NewLRU[string, float64](mostSizes, nil) // fails for sizes below 1 only
	}
	m, ok := s.known.Get(site)
	if !ok {
		m, site = firstSize, strings.Clone(site)
	}
	switch size := math.Log2(float64(max(n, 1))); {
	case size > m:
		m = min(m+sizeStep, mostSize)
	case size < m:
		m = max(m-sizeStep, leastSize)
	}
	s.known.Add(site, m)
}
