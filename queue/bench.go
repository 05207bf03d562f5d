package queue

import "time"

// bench is where the lanes wait that one slot keeps, in the order in which it
// will let them go. Priorities stand apart, because aging moves them against
// each other as time passes, while inside a priority the order only changes
// when something happens.
type bench struct {
	first [classes]heap[seatAt, byRank]
	old   [classes]heap[seatAt, bySeatAge]
	lanes int
	last  int // the seat of the lane that sat down last, among that lane's
}

// borrow is a bench where nobody sits.
func (s *Scheduler) borrow() *bench {
	last := len(s.spare) - 1
	if last < 0 {
		return new(bench)
	}
	b := s.spare[last]
	s.spare[last] = nil
	s.spare = s.spare[:last]
	return b
}

// seat is a lane's place on the bench of a slot.
type seat struct {
	lane  *lane
	slot  *Slot
	first [classes]int32
	old   [classes]int32
}

// seatAt is a seat in the heaps of one priority.
type seatAt struct {
	*seat
	p int
}

type byRank struct{}

func (byRank) before(a, b seatAt) bool {
	return byTurn{}.before(a.lane.classes[a.p].flows.top(), b.lane.classes[b.p].flows.top())
}
func (byRank) place(s seatAt) *int32 { return &s.first[s.p] }

type bySeatAge struct{}

func (bySeatAge) before(a, b seatAt) bool {
	return a.lane.classes[a.p].old.top().seq < b.lane.classes[b.p].old.top().seq
}
func (bySeatAge) place(s seatAt) *int32 { return &s.old[s.p] }

// sync brings one priority of a seat up to date.
func (b *bench) sync(s *seat, p int) {
	at := seatAt{s, p}
	seated, empty := b.first[p].has(at), s.lane.classes[p].flows.empty()
	switch {
	case seated && empty:
		b.first[p].remove(at)
		b.old[p].remove(at)
	case seated:
		b.first[p].fix(at)
		b.old[p].fix(at)
	case !empty:
		b.first[p].push(at)
		b.old[p].push(at)
	}
}

func (b *bench) sit(s *seat) {
	for p := range classes {
		b.sync(s, p)
	}
	b.lanes++
}

func (b *bench) rise(s *seat) {
	for p := range classes {
		if at := (seatAt{s, p}); b.first[p].has(at) {
			b.first[p].remove(at)
			b.old[p].remove(at)
		}
	}
	b.lanes--
}

// rank is the order in which holds go: by priority after aging, then by whose
// turn it is, then by arrival.
type rank struct {
	level int
	turn  float64
	seq   uint64
}

func (r rank) before(o rank) bool {
	if r.level != o.level {
		return r.level < o.level
	}
	if r.turn != o.turn {
		return r.turn < o.turn
	}
	return r.seq < o.seq
}

// level is a priority after aging. A priority gains with its oldest hold, all
// of it: would only the old holds gain, then a client with a long queue would
// go before another one's fresh requests for no other reason than its queue.
func level(p int, oldest, now time.Time, aging time.Duration) int {
	if aging <= 0 {
		return p
	}
	if waited := now.Sub(oldest); waited >= aging {
		return int(max(int64(p)-int64(waited/aging), 0))
	}
	return p
}

// candidate is a lane that may be the next, with the priority of its first
// hold.
type candidate struct {
	lane *lane
	p    int
	rank rank
}

func (c candidate) hold() *Hold { return c.lane.classes[c.p].flows.top().holds.top() }

// best is the first lane of the bench, as if the lane also, which may be nil,
// sat there too. It has no lane when nobody sits.
func (b *bench) best(now time.Time, aging time.Duration, also *lane) candidate {
	var found candidate
	for p := range classes {
		var first *flow
		var oldest *Hold
		if !b.first[p].empty() {
			first = b.first[p].top().lane.classes[p].flows.top()
			oldest = b.old[p].top().lane.classes[p].old.top()
		}
		if also != nil && !also.classes[p].flows.empty() {
			if f := also.classes[p].flows.top(); first == nil || (byTurn{}).before(f, first) {
				first = f
			}
			if h := also.classes[p].old.top(); oldest == nil || h.seq < oldest.seq {
				oldest = h
			}
		}
		if first == nil {
			continue
		}
		c := candidate{first.lane, p, rank{level(p, oldest.added, now, aging), first.turn, first.holds.top().seq}}
		if found.lane == nil || c.rank.before(found.rank) {
			found = c
		}
	}
	return found
}

// ages is when the next priority of the bench gains a step on another, or zero.
func (b *bench) ages(now time.Time, aging time.Duration) time.Time {
	var next time.Time
	mixed := 0
	for p := range classes {
		if b.old[p].empty() {
			continue
		}
		mixed++
		oldest := b.old[p].top().lane.classes[p].old.top().added
		if aging <= 0 || level(p, oldest, now, aging) == 0 {
			continue
		}
		waited := max(now.Sub(oldest), 0)
		at := oldest.Add((waited/aging + 1) * aging)
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if mixed < 2 {
		return time.Time{}
	}
	return next
}
