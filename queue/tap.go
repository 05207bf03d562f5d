package queue

import (
	"errors"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// ErrGone is the error of a draw that nobody waits for any more.
var ErrGone = errors.New("the connection is closed")

// Tap draws bytes for what is under way: the body of a request, or a tunnel, which
// has no permit. It is safe for concurrent use. Close it in the end.
type Tap struct {
	site    *site
	request Request

	// The site's lock guards what follows.
	slots  []*Slot
	slack  []int64 // :: slot → what may be lent of it
	made   uint64  // the generation by which they were found
	seen   uint64  // the same of the site
	closed bool
	count  int
	recent [8]drawn // what was drawn last and may come back, in order
	last   time.Time
}

// drawn is what was drawn at one time.
type drawn struct {
	at time.Time
	n  int64
}

// returns is how much of what was drawn last can be given back, at least.
const returns = 64 << 10

// Tap makes a tap for the limits of a request that count bytes. Of alternatives it
// has the one that Pick says, or the first.
func (g *Gate) Tap(r Request) *Tap {
	s := g.lock(r.Site)
	defer s.mu.Unlock()
	s.taps++
	t := &Tap{site: s, request: r}
	t.find(time.Now())
	return t
}

// Draw takes bytes from all the limits, the same amount from each: at most n and at
// least the least, or all that a limit can ever give, as soon as that is there. Those
// who came before go before, and all before any new request. It ends without anything
// when done is closed, with ErrGone, or at until, with a *Refusal that says when it
// would have been possible; zero is never.
func (t *Tap) Draw(done <-chan struct{}, n, least int64, until time.Time) (granted int64, err error) {
	if n <= 0 {
		return 0, nil
	}
	granted, d, err := t.begin(n, least, until)
	if d == nil {
		return granted, err
	}
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-d.ready:
	case <-done:
		err = ErrGone
	case <-late:
	}
	return t.end(d, err)
}

// begin takes what is there, or lets a draw wait for it.
func (t *Tap) begin(n, least int64, until time.Time) (int64, *draw, error) {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if t.closed {
		return 0, nil, ErrGone
	}
	t.follow(now)
	if !dry(t.slots) {
		if granted := s.sched.redeem(now, t.slots, n, least); granted > 0 {
			t.took(now, granted)
			return granted, nil, nil
		}
	}
	if s.gate.over.Load() {
		return 0, nil, &Refusal{Reason: Draining}
	}
	d := &draw{tap: t, n: n, least: max(min(least, n), 1), ready: make(chan struct{}, 1)}
	if !until.IsZero() && !until.After(now) {
		by, no := t.stalled(now, d)
		if by != nil && by.demand != nil {
			by.hint(now, n)
		}
		return 0, nil, no
	}
	s.sched.wait(d)
	s.step(now)
	if d.over {
		return d.granted, nil, d.err
	}
	return 0, d, nil
}

// end is what has become of a draw that has waited. One that was granted at the
// last moment is.
func (t *Tap) end(d *draw, err error) (int64, error) {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.over {
		return d.granted, d.err
	}
	now := time.Now()
	if err == nil {
		_, err = t.stalled(now, d)
	}
	s.sched.drop(d)
	s.step(now)
	return 0, err
}

// stalled is the refusal of a draw that has waited for as long as it would, and what
// keeps it.
func (t *Tap) stalled(now time.Time, d *draw) (*Slot, error) {
	no := &Refusal{Reason: Stalled}
	by, at := lacks(now, t.slots, d.least)
	if at.Before(limit.Unknown) {
		no.RetryAt = at
	}
	if by == nil { // enough, but others come first
		no.RetryAt = t.site.sched.drawsAt
		for _, slot := range t.slots {
			if slot.thirst > 0 {
				by = slot
			}
		}
	}
	if by != nil {
		no.Limit = by.name
		if by.away(now) {
			no.Reason = Away
		}
	}
	return by, no
}

// took remembers what was taken. Of what has become too old to come back, it is said
// that it has passed.
func (t *Tap) took(now time.Time, n int64) {
	if t.count == len(t.recent) {
		t.pass(now, 1)
	}
	t.recent[t.count], t.last = drawn{now, n}, now
	t.count++
	newer := int64(0)
	for i := t.count - 1; i > 0; i-- {
		if newer += t.recent[i].n; newer >= returns {
			t.pass(now, i)
			break
		}
	}
}

// pass says of the oldest that they have passed and will not come back.
func (t *Tap) pass(now time.Time, draws int) {
	for _, old := range t.recent[:draws] {
		for _, slot := range t.slots {
			if slot.knows(old.at) && old.n > 0 {
				slot.meter.Done(now, old.at, old.n, limit.Abandoned)
			}
		}
	}
	t.count = copy(t.recent[:], t.recent[draws:t.count])
}

// knows tells whether the slot's meter has what was taken at a time.
func (s *Slot) knows(at time.Time) bool {
	return s.meter != nil && (s.changed.IsZero() || at.After(s.changed))
}

// Refund gives back what was drawn last and has not passed, as far as the limits take it
// back: of more than 64 KiB, those that know no single takes.
func (t *Tap) Refund(n int64) {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed || n <= 0 {
		return
	}
	now := time.Now()
	for n > 0 && t.count > 0 {
		last := &t.recent[t.count-1]
		part := min(n, last.n)
		for _, slot := range t.slots {
			if slot.knows(last.at) {
				slot.meter.Give(now, last.at, part)
				slot.stir()
			}
		}
		n -= part
		if last.n -= part; last.n == 0 {
			t.count--
		}
	}
	for _, slot := range t.slots {
		if n > 0 && slot.knows(t.last) {
			slot.meter.Give(now, t.last, n)
			slot.stir()
		}
	}
	s.step(now)
}

// Left is what could be drawn at once were nobody else waiting, -1 when no limit
// counts bytes.
func (t *Tap) Left() int64 {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now, left := time.Now(), int64(-1)
	for _, slot := range t.slots {
		if slot.meter == nil {
			continue
		}
		if n := slot.meter.Left(now); left < 0 || n < left {
			left = n
		}
	}
	return left
}

// Close ends the tap. Draws that wait end with ErrGone. What was drawn stays drawn.
func (t *Tap) Close() {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed {
		return
	}
	now := time.Now()
	t.leave(now)
	t.closed = true
	s.taps--
	s.refuseDraws(t, ErrGone)
	s.step(now)
}

// follow finds the slots anew if the limits may have changed.
func (t *Tap) follow(now time.Time) {
	if s := t.site; t.made != s.gate.latest.Load().number || t.seen != s.seen {
		t.find(now)
		if len(s.sched.draws) > 0 {
			s.sched.parched = true
			s.step(now)
		}
	}
}

// find finds the slots of the newest limits. Where these make no sense, it keeps
// those that it has.
func (t *Tap) find(now time.Time) {
	s := t.site
	t.made, t.seen = s.gate.latest.Load().number, s.seen
	s.sweep(now)
	s.renew(&t.request)
	limits := t.request.Limits
	var list []Limit
	if len(limits) > 0 {
		list = limits[t.choice(len(limits))]
	}
	var slots []*Slot
	var slack []int64
	for i := range list {
		if list[i].Of != Bytes {
			continue
		}
		slot, err := s.slot(now, &list[i], &t.request)
		if err != nil {
			return
		}
		if !has(slots, slot) {
			slots, slack = append(slots, slot), append(slack, slackOf(&list[i]))
		}
	}
	t.leave(now)
	t.slots, t.slack = slots, slack
	for _, slot := range slots {
		slot.users++
	}
}

// choice is which of some alternatives the tap has.
func (t *Tap) choice(of int) int {
	if t.request.Pick == nil || of == 1 {
		return 0
	}
	all := make([]int, of)
	for i := range all {
		all[i] = i
	}
	if i := t.request.Pick(all); i >= 0 && i < of {
		return i
	}
	return 0
}

func has(slots []*Slot, slot *Slot) bool {
	for _, one := range slots {
		if one == slot {
			return true
		}
	}
	return false
}

// leave lets go of the slots.
func (t *Tap) leave(now time.Time) {
	t.pass(now, t.count)
	for _, slot := range t.slots {
		slot.users--
		slot.stir()
	}
	t.slots, t.slack = nil, nil
}

// retap lets the draws that wait follow the limits.
func (s *site) retap(now time.Time) {
	for _, d := range s.sched.draws {
		if t := d.tap; t.made != s.gate.latest.Load().number || t.seen != s.seen {
			t.find(now)
			s.sched.parched = true
		}
	}
}

// refuseDraws ends the draws of a tap, or all if it is nil, that wait.
func (s *site) refuseDraws(of *Tap, err error) {
	rest := s.sched.draws[:0]
	for _, d := range s.sched.draws {
		if of != nil && d.tap != of {
			rest = append(rest, d)
			continue
		}
		d.over, d.err = true, err
		d.wake()
	}
	clear(s.sched.draws[len(rest):])
	s.sched.draws, s.sched.parched = rest, true
}
