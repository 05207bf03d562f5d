package ledger

const slots = 64

// slot is the units of the responses in a piece of time.
type slot struct {
	since int64 // the first answer of it
	until int64 // the latest
	units int64
}

// recent counts the units answered within a rolling window. The zero value is off.
type recent struct {
	on     bool
	window int64
	slots  [slots]slot
	head   int
	len    int
	sum    int64
}

// begin counts from now on, with a window of that length.
func (t *recent) begin(window int64) { t.on, t.window = true, window }

func (t *recent) add(v, n int64) {
	if n <= 0 {
		return
	}
	t.expire(v)
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

// expire removes units that have left the window.
func (t *recent) expire(v int64) {
	for t.len > 0 && v-t.slots[t.head].until >= t.window {
		t.sum -= t.slots[t.head].units
		t.head = (t.head + 1) % slots
		t.len--
	}
}

// remove removes n units, oldest first, because the server counts fewer.
func (t *recent) remove(n int64) {
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

// free returns when at most left units are in the window.
func (t *recent) free(v, left int64) int64 {
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
