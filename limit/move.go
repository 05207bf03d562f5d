package limit

import "time"

// Move is a meter for another spec that remembers what the old one has counted: what a
// reload needs. Of the same arithmetic with no longer a window it is the old one, in
// which requests are in flight, and what was taken before can be given back and settled
// after. Of another it is Carry, with the old one's past. The old meter must not be used
// any more.
func Move(now time.Time, from Meter, to Spec) (Meter, error) {
	m, err := New(to)
	if err != nil {
		return nil, err
	}
	list := PastOf(now, from)
	switch fresh := m.(type) {
	case *rolling:
		if old, same := from.(*rolling); same && fresh.window <= old.window {
			old.amount, old.window, old.due = fresh.amount, fresh.window, 0
			old.repay(old.clock.at(now))
			return old, nil
		}
	case *fixed:
		if old, same := from.(*fixed); same && old.as == fresh.as {
			fresh.from(now, old)
			v := fresh.at(now)
			fresh.used = max(fresh.used, min(sum(list, v-fresh.begins(v)+1), fresh.amount))
			return fresh, nil
		}
	case *firstUse:
		if old, same := from.(*firstUse); same && (old.at(now) < old.end || fresh.window <= old.window) {
			old.used = max(lowered(old.used, old.amount, fresh.amount), min(sum(list, fresh.window), fresh.amount))
			old.amount, old.window = fresh.amount, fresh.window
			if old.end != 0 && !old.shut {
				old.end = old.start + old.window
			}
			return old, nil
		}
	case *bucket:
		if old, same := from.(*bucket); same {
			v := old.clock.at(now)
			level := old.level(v)
			fresh.clock, fresh.spent = old.clock, old.spent
			fresh.count(v, list)
			fresh.hold(v, min(level, fresh.level(v)))
			return fresh, nil
		}
	case *paced:
		if old, same := from.(*paced); same {
			old.amount, old.window = fresh.amount, fresh.window
			if len(list) > 0 {
				old.count()
			}
			return old, nil
		}
	case *concurrency:
		if old, same := from.(*concurrency); same {
			old.amount = fresh.amount
			return old, nil
		}
	case *adaptive:
		if old, same := from.(*adaptive); same {
			old.min, old.max, old.window = fresh.min, fresh.max, fresh.window
			old.rate = min(max(old.rate, old.min), old.max)
			return old, nil
		}
	}
	return Carry(now, list, to)
}

// from is m with what another spec of the same arithmetic has counted.
func (m *fixed) from(now time.Time, old *fixed) {
	v := old.at(now)
	m.clock, m.spent = old.clock, old.spent
	m.used, m.opened = lowered(old.used, old.amount, m.amount), old.opened
	m.late = min(old.late, m.used)
	m.end = m.after(v)
	if m.width == old.width && m.calendar == nil {
		m.end = old.end // it may be late, after the clock went back
	}
}
