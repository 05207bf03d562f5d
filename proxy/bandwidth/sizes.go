package bandwidth

import (
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// firstSize is the assumed size of answers of a site without answers; minSize and
	// maxSize bound the sizes of others. All are logarithms to base 2 of bytes.
	firstSize, minSize, maxSize = 14, 10, 16
	// sizeStep is the distance by which an answer moves the median.
	sizeStep = 1.0 / 16
	// maxSizes bounds the sites that are remembered.
	maxSizes = 10_000
)

// Sizes are the usual sizes of the answers of sites: medians, updated step by step. The
// zero value is ready; it is safe for concurrent use.
type Sizes struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, float64] // site → logarithm of the median
}

// Usual is the median of a site's answers in bytes, rounded up to a power of two.
func (s *Sizes) Usual(site string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	median := float64(firstSize)
	if s.known != nil {
		if known, ok := s.known.Get(site); ok {
			median = known
		}
	}
	return 1 << int(math.Ceil(median))
}

// Add updates the median with an answer of n bytes.
func (s *Sizes) Add(site string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known, _ = simplelru.NewLRU[string, float64](maxSizes, nil) // fails for sizes below 1 only
	}
	median, ok := s.known.Get(site)
	if !ok {
		median, site = firstSize, strings.Clone(site)
	}
	switch size := math.Log2(float64(max(n, 1))); {
	case size > median:
		median = min(median+sizeStep, maxSize)
	case size < median:
		median = max(median-sizeStep, minSize)
	}
	s.known.Add(site, median)
}
