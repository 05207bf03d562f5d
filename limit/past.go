package limit

import (
	"math"
	"time"
)

// past is what was taken, for longer than it counts: another limit that counts the same
// may have a longer window, or windows that begin at other times. Of what is long ago the
// times are coarse: an amount stands at the time of the last take that is in it, which is
// later than it was by at most half of how long ago that is.
type past struct{ ring }

// mostPast is how many amounts are remembered.
const mostPast = 48

// add remembers that n were taken at v.
func (p *past) add(v, n int64) {
	if n <= 0 {
		return
	}
	if p.count > 0 {
		if last := p.at(p.count - 1); last.at >= v {
			last.n = min(last.n+n, most)
			return
		}
	}
	if p.count == mostPast {
		p.fold(v)
	}
	p.push(take{v, n})
}

// fold puts together what is near in relation to how long ago it is, and at last what is
// oldest.
func (p *past) fold(v int64) {
	for part := int64(8); p.count > mostPast*3/4; part /= 2 {
		kept := 0
		for i := range p.count {
			t := *p.at(i)
			if kept > 0 {
				last := p.at(kept - 1)
				if part == 0 && i < p.count/2 || part > 0 && t.at-last.at <= (v-t.at)/part {
					t.n = min(t.n+last.n, most)
					kept--
				}
			}
			*p.at(kept) = t
			kept++
		}
		p.count = kept
		if part == 0 {
			return
		}
	}
}

// back forgets n of what was taken at a time.
func (p *past) back(at, n int64) {
	if i := p.find(at); i < p.count {
		t := p.at(i)
		t.n = max(t.n-n, 0)
	}
}

// move moves all times along with a clock that went back.
func (p *past) move(by int64) {
	for i := range p.count {
		t := p.at(i)
		t.at = max(t.at+by, int64(i)) // each has a time of its own
	}
}

func (p *past) append(b *encoder) {
	newest := int64(0)
	if p.count > 0 {
		newest = p.at(p.count - 1).at
	}
	b.int(newest)
	p.ring.append(b, newest)
}

// spent reads what append has written. Versions before 3 have four numbers before that,
// which say nothing, and version 1 has nothing else.
func (d *decoder) spent(last int64) (p past) {
	if d.version < 3 {
		for range 4 {
			d.between(math.MinInt64, math.MaxInt64)
		}
	}
	if d.version > 1 {
		for _, t := range d.takes(d.time(last), mostPast) {
			p.push(t)
		}
	}
	return p
}

// Spent is an amount that was taken so long ago, or earlier.
type Spent struct {
	Ago time.Duration
	N   int64
}

// spent is what is remembered, the oldest first.
func (p *past) spent(v int64) []Spent {
	list := make([]Spent, 0, p.count)
	for i := range p.count {
		if t := p.at(i); t.n > 0 {
			list = append(list, Spent{time.Duration(max(v-t.at, 0)), t.n})
		}
	}
	return list
}

// PastOf is what was taken of a meter, the oldest first. What the meter counts and
// nobody knows the time of was taken now.
func PastOf(now time.Time, m Meter) []Spent {
	var p *past
	var v, within, counts int64
	switch m := m.(type) {
	case interface{ Past(now time.Time) []Spent }:
		return m.Past(now)
	case *rolling:
		v = m.clock.at(now)
		m.expire(v)
		p, within, counts = &m.spent, m.window, m.used+m.owed
	case *fixed:
		v = m.at(now)
		p, within, counts = &m.spent, v-m.begins(v)+1, m.used
	case *firstUse:
		v = m.at(now)
		p, within, counts = &m.spent, v-m.start+1, m.used
	case *bucket:
		v = m.clock.at(now)
		p, within, counts = &m.spent, edge, int64(math.Ceil(float64(m.burst)-m.level(v)))
	case *paced:
		v = m.clock.at(now)
		p = &m.spent
	case *adaptive:
		v = m.at(now)
		p = &m.spent
	default:
		return nil
	}
	list := p.spent(v)
	for _, s := range list {
		if int64(s.Ago) < within {
			counts -= s.N
		}
	}
	if counts > 0 {
		list = append(list, Spent{0, counts})
	}
	return list
}

// Carry is a meter for a spec of which all was taken that counts of another one's past:
// what was taken within the window that the spec has now stays taken. What is more than
// the whole limit is not owed: it was right when it was taken.
func Carry(now time.Time, list []Spent, to Spec) (Meter, error) {
	m, err := New(to)
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *rolling:
		v := m.clock.at(now)
		m.spent.take(v, list)
		m.count(v, list)
	case *fixed:
		v := m.at(now)
		m.spent.take(v, list)
		m.used = min(sum(list, v-m.begins(v)+1), m.amount)
		m.opened = v // nothing from before is given back
		if v >= m.end-margin(m.width) {
			m.late = min(sum(list, margin(m.width)), m.used) // it may be in flight
		}
	case *firstUse:
		v := m.at(now)
		m.spent.take(v, list)
		m.count(v, list)
	case *bucket:
		v := m.clock.at(now)
		m.spent.take(v, list)
		m.count(v, list)
	case *paced:
		v := m.clock.at(now)
		m.spent.take(v, list)
		m.count()
	case *adaptive:
		v := m.at(now)
		if m.spent.take(v, list); len(list) > 0 {
			m.last = v - int64(list[len(list)-1].Ago)
			m.free, m.used = m.last+m.gap(1), v
		}
	}
	return m, nil
}

// take remembers what another meter did.
func (p *past) take(v int64, list []Spent) {
	for _, s := range list {
		p.add(max(v-int64(s.Ago), 0), s.N)
	}
}

// sum is how much was taken less than so long ago.
func sum(list []Spent, within int64) (n int64) {
	for _, s := range list {
		if int64(s.Ago) < within {
			n = min(n+s.N, most)
		}
	}
	return n
}

// count has the takes count that another limit allowed, until they leave the window.
func (m *rolling) count(v int64, list []Spent) {
	m.takes, m.air, m.used, m.owed, m.due = ring{}, ring{}, 0, 0, 0
	for _, s := range list {
		// It may have arrived as late as any take.
		if at := min(v-int64(s.Ago)+margin(m.window), v); at > v-m.window {
			m.used += s.N
			m.put(at, s.N)
		}
	}
}

// begins is when the window of a time has begun.
func (m *fixed) begins(v int64) int64 {
	if m.calendar == nil {
		return v / m.width * m.width
	}
	t := max(v-m.width, 0)
	for next := m.after(t); next <= v; next = m.after(next) {
		t = next
	}
	return t
}

// count has a window be open that ends when all is over that the server may count with
// the last take. Nobody knows when its window opened: so the next take opens ours anew.
func (m *firstUse) count(v int64, list []Spent) {
	n := sum(list, m.window)
	if n == 0 {
		return
	}
	m.latest = v - int64(list[len(list)-1].Ago)
	m.used, m.opener, m.start, m.end = min(n, m.amount), 0, m.latest, m.latest+m.window
}

// count drains the bucket as the takes would have.
func (m *bucket) count(v int64, list []Spent) {
	level, last := float64(m.burst), int64(0)
	for _, s := range list {
		at := max(v-int64(s.Ago), 0)
		level = min(level+float64(at-last)/1e9*m.refill, float64(m.burst))
		level = max(level-float64(s.N), 0)
		last = at
		m.there.take(at, min(s.N, m.burst))
	}
	level = min(level+float64(v-last)/1e9*m.refill, float64(m.burst))
	m.hold(v, level)
	m.there.bound(v, float64(m.burst)-level)
	// What stood in another bucket says little about this one: nothing is given back.
	m.past.drained(v, 0)
	m.past.raise(v, float64(m.burst))
}

// count waits for as long as the takes would have, but no longer than the window.
func (m *paced) count() {
	m.last, m.free = 0, 0
	for i := range m.spent.count {
		t := m.spent.at(i)
		up, _ := m.gap(t.n)
		m.last, m.free = t.at, min(plus(max(m.free, t.at), up), t.at+m.window)
	}
}
