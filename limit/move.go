package limit

import "time"

// Move is a meter for another spec that remembers what the old one has counted:
// what a reload needs. Unlike State and Restore it keeps requests in flight, and
// what was taken before can be given back and settled after. An arithmetic that
// has changed starts anew. The old meter must not be used any more.
func Move(now time.Time, from Meter, to Spec) (Meter, error) {
	m, err := New(to)
	if err != nil {
		return nil, err
	}
	switch fresh := m.(type) {
	case *rolling:
		if old, same := from.(*rolling); same {
			old.amount, old.window, old.due = fresh.amount, fresh.window, 0
			old.repay(old.clock.at(now))
			return old, nil
		}
	case *fixed:
		if old, same := from.(*fixed); same && old.as == fresh.as {
			return fresh.from(now, old), nil
		}
	case *firstUse:
		if old, same := from.(*firstUse); same {
			old.at(now)
			old.used = lowered(old.used, old.amount, fresh.amount)
			old.amount, old.window = fresh.amount, fresh.window
			if old.end != 0 && !old.shut {
				old.end = old.start + old.window
			}
			return old, nil
		}
	case *bucket:
		if old, same := from.(*bucket); same {
			v := old.clock.at(now)
			fresh.hold(v, old.level(v))
			// What stood in the old bucket says little about the new one, so nothing
			// from before is given back.
			fresh.past.drained(v, 0)
			fresh.past.raise(v, float64(fresh.burst))
			fresh.clock, fresh.told = old.clock, old.told
			return fresh, nil
		}
	case *paced:
		if old, same := from.(*paced); same {
			old.amount, old.window = fresh.amount, fresh.window
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
	return m, nil
}

// from is m with what another spec of the same arithmetic has counted.
func (m *fixed) from(now time.Time, old *fixed) *fixed {
	v := old.at(now)
	m.clock, m.told = old.clock, old.told
	m.used, m.opened = lowered(old.used, old.amount, m.amount), old.opened
	m.late = min(old.late, m.used)
	m.end = m.after(v)
	if m.width == old.width && m.calendar == nil {
		m.end = old.end // it may be late, after the clock went back
	}
	return m
}
