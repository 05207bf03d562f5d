package ledger

const slots = 64

// slot is what was answered in a piece of time.
type slot struct {
	since int64 // the first answer of it
	until int64 // the latest
	units int64
}

// trail is what was answered within a window: what a rolling window still counts
// of us, at most. Its zero value is empty, with no window.
type trail struct {
	window int64
	slots  [slots]slot
	head   int
	len    int
	sum    int64
}

// span sets the window.
func (t *trail) span(window int64) { t.window = window }

func (t *trail) add(v, n int64) {
	if n <= 0 {
		return
	}
	t.fade(v)
	t.sum += n
	if t.len > 0 {
		last := &t.slots[(t.head+t.len-1)%slots]
		// What is in one slot is counted until its last answer has gone.
		if t.len == slots || v-last.since < t.window/(slots-2) {
			last.until, last.units = v, last.units+n
			return
		}
	}
	t.slots[(t.head+t.len)%slots] = slot{v, v, n}
	t.len++
}

// fade forgets what has left the window.
func (t *trail) fade(v int64) {
	for t.len > 0 && v-t.slots[t.head].until >= t.window {
		t.sum -= t.slots[t.head].units
		t.head = (t.head + 1) % slots
		t.len--
	}
}

// forgive takes back n, the oldest first: a server said that it counts less.
func (t *trail) forgive(n int64) {
	for n > 0 && t.len > 0 {
		first := &t.slots[t.head]
		by := min(n, first.units)
		first.units -= by
		t.sum -= by
		n -= by
		if first.units > 0 {
			return
		}
		t.head = (t.head + 1) % slots
		t.len--
	}
}

// free is when no more than so much is left of it.
func (t *trail) free(v, left int64) int64 {
	sum := t.sum
	for n := 0; n < t.len; n++ {
		if sum <= left {
			return v
		}
		s := t.slots[(t.head+n)%slots]
		sum -= s.units
		v = max(v, s.until+t.window)
	}
	return v
}
