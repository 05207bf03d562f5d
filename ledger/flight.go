package ledger

import "sort"

// flight is what was taken at one time.
type flight struct {
	at    int64
	open  int64 // units that are not answered
	heard int64 // units that are answered, by requests that are not over
	from  int64 // what had been taken before
	upto  int64 // and with it
}

// mark is how much had been answered by a time.
type mark struct{ at, sum int64 }

const (
	marks   = 128
	rebase  = int64(1) << 58
	forever = hour // an answer that takes longer is not waited for
)

// flights is what was taken and how much of it was answered when. Its zero value
// has nothing in flight.
type flights struct {
	list     []flight // by time; the first of them from head on is not over
	head     int
	taken    int64 // units, ever
	answered int64
	busy     int64 // units that are not over
	log      [marks]mark
	marks    int
}

// unanswered is how many units may or may not be counted by the server.
func (f *flights) unanswered() int64 { return f.taken - f.answered }

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
	f.list = append(f.list, flight{at: v, open: n, from: f.taken - n, upto: f.taken})
}

// pack drops what is over, if that is worth it.
func (f *flights) pack() {
	kept := 0
	for _, got := range f.list[f.head:] {
		if got.open != 0 || got.heard != 0 {
			kept++
		}
	}
	if kept > len(f.list)/2 {
		return
	}
	kept = 0
	for _, got := range f.list[f.head:] {
		if got.open != 0 || got.heard != 0 {
			f.list[kept] = got
			kept++
		}
	}
	f.list, f.head = f.list[:kept], 0
}

// find is what was taken at a time.
func (f *flights) find(at int64) *flight {
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

// give takes back what was never sent.
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

// move is give and take.
func (f *flights) move(at, v, n int64) {
	if got := f.find(at); got != nil && got.at < v {
		n = min(n, got.open)
		f.give(at, n)
		f.take(v, n)
	}
}

// settle replaces an amount by another, and is the difference.
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

// answer says that n of what was taken at a time are answered, and is how many
// of them are.
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

// done says that n are over, and is how many of them nobody had said to be
// answered.
func (f *flights) done(v, at, n int64) (late int64) {
	got := f.find(at)
	if got == nil {
		// The clock went back meanwhile: which one it was is not known.
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

// trim forgets what is over from the front on.
func (f *flights) trim(v int64) {
	for f.head < len(f.list) {
		got := &f.list[f.head]
		if v-got.at > forever {
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

// count notes that n more are answered.
func (f *flights) count(v, n int64) {
	if n == 0 {
		return
	}
	f.answered += n
	if f.marks > 0 && f.log[f.marks-1].at >= v {
		f.log[f.marks-1].sum = f.answered
		return
	}
	if f.marks == marks {
		f.thin()
	}
	f.log[f.marks] = mark{v, f.answered}
	f.marks++
}

// thin makes room in the log: of what nobody in flight can ask for only the last
// is kept, and else every second. Then less counts as answered than is.
func (f *flights) thin() {
	oldest := f.log[f.marks-1].at
	for n := f.head; n < len(f.list); n++ {
		if f.list[n].open > 0 {
			oldest = min(oldest, f.list[n].at)
			break
		}
	}
	from := max(f.mark(oldest), 0)
	f.marks = copy(f.log[:], f.log[from:f.marks])
	if f.marks < marks*3/4 {
		return
	}
	kept := 1
	for n := 1; n < f.marks; n++ {
		if (f.marks-1-n)%2 == 0 {
			f.log[kept] = f.log[n]
			kept++
		}
	}
	f.marks = kept
}

// before is about how much had been taken when the request came to the server that
// was sent at a time, and with it: of those that were sent together it is one in the
// middle.
func (f *flights) before(sent int64) int64 {
	got := f.find(sent)
	if got == nil {
		return f.answered
	}
	return min((got.from+got.upto+1)/2, f.taken)
}

// mark is the last mark that is not after a time, or -1.
func (f *flights) mark(at int64) int {
	low, high := 0, f.marks
	for low < high {
		if mid := (low + high) / 2; f.log[mid].at <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

// since is how many units have been answered since, at most.
func (f *flights) since(at int64) int64 {
	if n := f.mark(at); n >= 0 {
		return f.answered - f.log[n].sum
	}
	return f.answered
}

// uncounted is how many units the server may not have counted in the answer to
// what was sent at a time, without own, which is that request's.
func (f *flights) uncounted(sent, own int64) int64 {
	var sum int64
	if n := f.mark(sent); n >= 0 {
		sum = f.log[n].sum
	}
	return max(f.taken-sum-own, 0)
}
