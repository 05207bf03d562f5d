package limit

// highWater remembers the highest level of a bucket since some time: exactly for the last
// takes, and more coarsely for older ones. The zero value remembers nothing.
type highWater struct {
	count int
	marks [32]highMark
}

// highMark is the highest level after start, up to the start of the next mark. Levels
// between takes at the same time do not count.
type highMark struct {
	start int64
	most  float64
}

// drained records a take at v from a bucket whose level was at most full since the last
// take.
func (h *highWater) drained(v int64, full float64) {
	if h.count > 0 {
		last := &h.marks[h.count-1]
		if last.start == v {
			return
		}
		last.most = max(last.most, full)
	}
	if h.count == len(h.marks) {
		for i := range h.count / 2 {
			a, b := h.marks[2*i], h.marks[2*i+1]
			h.marks[i] = highMark{a.start, max(a.most, b.most)}
		}
		h.count /= 2
	}
	h.marks[h.count] = highMark{start: v}
	h.count++
}

// from is the last mark not after v, or the first.
func (h *highWater) from(v int64) int {
	i := h.count - 1
	for i > 0 && h.marks[i].start > v {
		i--
	}
	return max(i, 0)
}

// since is the highest level after v, as far as known.
func (h *highWater) since(v int64) float64 {
	fullest := 0.0
	for _, m := range h.marks[h.from(v):h.count] {
		fullest = max(fullest, m.most)
	}
	return fullest
}

// raise records that the level would have been higher since v.
func (h *highWater) raise(v int64, by float64) {
	for i := h.from(v); i < h.count; i++ {
		h.marks[i].most += by
	}
}
