package ledger

import (
	"slices"
	"sort"
)

// takenAt counts the units taken at one time.
type takenAt struct {
	at    int64
	open  int64 // units not answered
	heard int64 // units answered, by requests that are not done
	from  int64 // sum of units taken before
	upto  int64 // sum including these
}

// mark is the sum of units answered by a time.
type mark struct{ at, sum int64 }

const (
	marks         = 128
	rebase        = int64(1) << 58
	answerTimeout = hour // maximum wait for an answer
)

// flights records which units were taken, and when they were answered. The zero value has
// none in flight.
type flights struct {
	list        []takenAt // by time; entries from head on are not done
	head        int
	taken       int64 // units in all
	answered    int64
	busy        int64 // units that are not done
	answeredLog [marks]mark
	marks       int
	maxInFlight int64 // bound of units in flight while little is known; 0: none
}

// unanswered returns the number of units that the server may or may not have counted.
func (f *flights) unanswered() int64 { return f.taken - f.answered }

// full reports whether n more units in flight would be too many. At least one request may be.
func (f *flights) full(n int64) bool {
	flying := f.unanswered()
	return f.maxInFlight > 0 && flying > 0 && flying+n > f.maxInFlight
}

func (f *flights) take(v, n int64) {
	if f.taken > rebase {
		f.taken -= f.answered
		f.answered, f.marks = 0, 0
	}
	f.taken += n
	f.busy += n
	if last := len(f.list) - 1; last >= f.head && f.list[last].at >= v {
		f.list[last].open += n
		f.list[last].upto = f.taken
		return
	}
	if len(f.list) == cap(f.list) {
		f.pack()
	}
	f.list = append(f.list, takenAt{at: v, open: n, from: f.taken - n, upto: f.taken})
}

// pack removes the entries that are done from a full list, and makes room if few are.
func (f *flights) pack() {
	open := slices.DeleteFunc(f.list[f.head:], func(t takenAt) bool { return t.open == 0 && t.heard == 0 })
	f.list, f.head = append(f.list[:0], open...), 0
	if size := cap(f.list); len(f.list) > size/2 {
		f.list = slices.Grow(f.list, size)
	}
}

// find returns the entry of a time, or nil.
func (f *flights) find(at int64) *takenAt {
	list := f.list[f.head:]
	if len(list) == 0 {
		return nil
	}
	n := 0
	if list[0].at != at {
		n = sort.Search(len(list), func(n int) bool { return list[n].at >= at })
	}
	if n == len(list) || list[n].at != at {
		return nil
	}
	return &list[n]
}

// give removes units that were never sent.
func (f *flights) give(at, n int64) {
	got := f.find(at)
	if got == nil {
		return
	}
	n = min(n, got.open)
	got.open -= n
	f.taken -= n
	f.busy = max(f.busy-n, 0)
	f.trim(0)
}

// move moves units to another time.
func (f *flights) move(at, v, n int64) {
	if got := f.find(at); got != nil && got.at < v {
		n = min(n, got.open)
		f.give(at, n)
		f.take(v, n)
	}
}

// settle replaces an amount and returns the difference.
func (f *flights) settle(at, estimate, actual int64) int64 {
	got := f.find(at)
	if got == nil {
		return 0
	}
	by := actual - estimate
	switch {
	case got.open >= estimate:
		by = max(by, -got.open)
		got.open += by
	case got.heard >= estimate:
		by = max(by, -got.heard)
		got.heard += by
		f.answered += by
	default:
		return 0
	}
	f.taken += by
	f.busy = max(f.busy+by, 0)
	return by
}

// answer records that n units taken at a time are answered, and returns how many of them
// are new.
func (f *flights) answer(v, at, n int64) int64 {
	got := f.find(at)
	if got == nil || n <= 0 {
		return 0
	}
	n = min(n, got.open)
	got.open -= n
	got.heard += n
	f.count(v, n)
	return n
}

// done records that n units are done, and returns how many of them were not answered
// before.
func (f *flights) done(v, at, n int64) (late int64) {
	got := f.find(at)
	if got == nil {
		// The clock went back: the entry is unknown.
		if f.head == len(f.list) {
			return 0
		}
		got = &f.list[f.head]
	}
	heard := min(n, got.heard)
	late = min(n-heard, got.open)
	got.heard -= heard
	got.open -= late
	f.busy = max(f.busy-heard-late, 0)
	f.count(v, late)
	f.trim(v)
	return late
}

// trim removes entries at the front that are done.
func (f *flights) trim(v int64) {
	for f.head < len(f.list) {
		got := &f.list[f.head]
		if v-got.at > answerTimeout {
			f.busy = max(f.busy-got.open-got.heard, 0)
			f.count(v, got.open)
			got.open, got.heard = 0, 0
		}
		if got.open != 0 || got.heard != 0 {
			return
		}
		f.head++
	}
	f.list, f.head = f.list[:0], 0
}

// count records n more answered units.
func (f *flights) count(v, n int64) {
	if n == 0 {
		return
	}
	f.answered += n
	if f.marks > 0 && f.answeredLog[f.marks-1].at >= v {
		f.answeredLog[f.marks-1].sum = f.answered
		return
	}
	if f.marks == marks {
		f.thin()
	}
	f.answeredLog[f.marks] = mark{v, f.answered}
	f.marks++
}

// thin makes room in answeredLog: of the times before all units in flight only the last stays,
// of the others every second. Then fewer units count as answered than are.
func (f *flights) thin() {
	oldest := f.answeredLog[f.marks-1].at
	for n := f.head; n < len(f.list); n++ {
		if f.list[n].open > 0 {
			oldest = min(oldest, f.list[n].at)
			break
		}
	}
	from := max(f.mark(oldest), 0)
	f.marks = copy(f.answeredLog[:], f.answeredLog[from:f.marks])
	if f.marks < marks*3/4 {
		return
	}
	to := 1
	for n := 1; n < f.marks; n++ {
		if (f.marks-1-n)%2 == 0 {
			f.answeredLog[to] = f.answeredLog[n]
			to++
		}
	}
	f.marks = to
}

// eachAnswered visits the units that were answered, in the order of times. Of those of long ago
// only the sum is known, and of others a time by which they were answered.
func (f *flights) eachAnswered(visit func(at, n int64)) {
	var sum int64
	for _, m := range f.answeredLog[:f.marks] {
		visit(m.at, m.sum-sum)
		sum = m.sum
	}
}

// before estimates the number of units taken when the request sent at that time reached the
// server, including its own: of requests sent together, of one in the middle.
func (f *flights) before(sent int64) int64 {
	got := f.find(sent)
	if got == nil {
		return f.answered
	}
	return min((got.from+got.upto+1)/2, f.taken)
}

// oldest returns the time at which the oldest unanswered unit was taken; after v if there is none.
func (f *flights) oldest(v int64) int64 {
	for n := f.head; n < len(f.list); n++ {
		if f.list[n].open > 0 {
			return f.list[n].at
		}
	}
	return v + 1
}

// mark returns the index of the last mark not after a time, or -1.
func (f *flights) mark(at int64) int {
	return sort.Search(f.marks, func(n int) bool { return f.answeredLog[n].at > at }) - 1
}

// since returns an upper bound of the units answered since a time.
func (f *flights) since(at int64) int64 {
	if n := f.mark(at); n >= 0 {
		return f.answered - f.answeredLog[n].sum
	}
	return f.answered
}

// uncounted returns the most units that the server may not have counted in the answer to the
// request sent at a time, without own, the units of that request.
func (f *flights) uncounted(sent, units int64) int64 {
	var sum int64
	if n := f.mark(sent); n >= 0 {
		sum = f.answeredLog[n].sum
	}
	return max(f.taken-sum-units, 0)
}

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
