package limit

// heights remembers how full a bucket has stood since some time: exactly for what
// was just taken, and more coarsely the longer ago. Its zero value remembers
// nothing.
type heights struct {
	count int
	marks [32]height
}

// height is the fullest that a bucket has stood after start, and up to the start of
// the next. Between takes of one moment it does not count.
type height struct {
	start int64
	most  float64
}

// drained says that something is taken at v from a bucket that has stood at most
// so full since the last time: it rises until then.
func (h *heights) drained(v int64, full float64) {
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
			h.marks[i] = height{a.start, max(a.most, b.most)}
		}
		h.count /= 2
	}
	h.marks[h.count] = height{start: v}
	h.count++
}

// from is the last mark that is not after v, or the first.
func (h *heights) from(v int64) int {
	i := h.count - 1
	for i > 0 && h.marks[i].start > v {
		i--
	}
	return max(i, 0)
}

// since is the fullest after v, as far as takes have shown.
func (h *heights) since(v int64) float64 {
	fullest := 0.0
	for _, m := range h.marks[h.from(v):h.count] {
		fullest = max(fullest, m.most)
	}
	return fullest
}

// raise says that the bucket would have stood higher since v.
func (h *heights) raise(v int64, by float64) {
	for i := h.from(v); i < h.count; i++ {
		h.marks[i].most += by
	}
}
