package limit

import (
	"reflect"
	"time"
)

// meters make a meter of each kind. They are separate from kinds, which some of them use.
var meters = map[As]func(Spec) meter{
	Rolling:  func(s Spec) meter { return counting(&rolling{amount: s.Amount, window: int64(s.Window)}) },
	Fixed:    func(s Spec) meter { return counting(&fixed{as: Fixed, amount: s.Amount, width: int64(s.Window)}) },
	FirstUse: func(s Spec) meter { return counting(&firstUse{amount: s.Amount, window: int64(s.Window)}) },
	Bucket:   func(s Spec) meter { return counting(newBucket(s)) },
	Paced: func(s Spec) meter {
		return counting(&paced{spacing: spacing{amount: s.Amount, units: s.Amount, long: int64(s.Window), lastLong: int64(s.Window)}})
	},
	Quota:       func(s Spec) meter { return counting(newQuota(s)) },
	Concurrency: func(s Spec) meter { return &concurrency{amount: s.Amount} },
	Adaptive:    func(s Spec) meter { return counting(newAdaptive(s)) },
}

// New makes a meter of which nothing has been taken.
func New(s Spec) (Meter, error) { return create(s) }

func create(s Spec) (meter, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return meters[s.As](s), nil
}

// Move makes a meter for another spec that remembers what the old one counted, for a
// reload. With the same kind and no longer window, it is the old meter, with its requests
// in flight. Otherwise it is Carry, with the old meter's past. The old meter must not be
// used any more.
func Move(now time.Time, from Meter, to Spec) (Meter, error) {
	fresh, err := create(to)
	if err != nil {
		return nil, err
	}
	list := PastOf(now, from)
	if old, ours := from.(meter); ours && reflect.TypeOf(old) == reflect.TypeOf(fresh) {
		if m := old.become(now, fresh, list); m != nil {
			return m, nil
		}
	}
	return Carry(now, list, to)
}

// PastOf lists what was taken of a meter, oldest first. Counted units of unknown time count
// as taken now.
func PastOf(now time.Time, m Meter) []Spent {
	local, isMeter := m.(meter)
	if !isMeter {
		if other, knows := m.(interface{ Past(now time.Time) []Spent }); knows {
			return other.Past(now)
		}
		return nil
	}
	v := local.at(now)
	list := local.past().spent(v)
	within, units := local.counted(v)
	if units -= sum(list, within); units > 0 {
		list = append(list, Spent{0, units})
	}
	return list
}

// Add makes a meter count the takes of another limit of the same requests, too, if that has counted more of some age.
func Add(now time.Time, m Meter, list []Spent, spec Spec) (Meter, error) {
	if known := PastOf(now, m); exceeds(list, known) {
		return Carry(now, Union(known, list), spec)
	}
	return m, nil
}

// Carry makes a meter for a spec that counts the takes of another meter: units taken within
// the spec's window stay taken. Units beyond the whole limit are not owed: the old limit
// allowed them.
func Carry(now time.Time, list []Spent, to Spec) (Meter, error) {
	m, err := create(to)
	if err != nil {
		return nil, err
	}
	v := m.at(now)
	m.past().takeAll(v, list)
	m.replay(v, list)
	return m, nil
}
