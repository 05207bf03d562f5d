package limit

import "time"

// meter is a Meter of this package, with what Move needs: a configuration that is reloaded may change
// a limit to another kind, and what was taken stays taken. A meter has a history, to which Take and
// Settle add and from which Give removes, and State stores it. bucket.go shows all of it.
type meter interface {
	Meter

	// past lists the remembered takes, oldest first, and how many units count within a
	// length of time, remembered or not.
	past(now time.Time) (list []Spent, within, counts int64)

	// carry makes a new meter count the takes of another, and adds them to its history.
	carry(now time.Time, list []Spent)

	// become changes the meter to the numbers of to, a new meter. It returns nil if both
	// are too different. list is the meter's own past. Earlier takes can still be given
	// back and settled.
	become(now time.Time, to Meter, list []Spent) Meter
}

// meters make a meter of each kind. They are separate from kinds, which some of them use.
var meters = map[As]func(Spec) meter{
	Rolling:  func(s Spec) meter { return &rolling{amount: s.Amount, window: int64(s.Window)} },
	Fixed:    func(s Spec) meter { return &fixed{as: Fixed, amount: s.Amount, width: int64(s.Window)} },
	FirstUse: func(s Spec) meter { return &firstUse{amount: s.Amount, window: int64(s.Window)} },
	Bucket:   func(s Spec) meter { return newBucket(s) },
	Paced: func(s Spec) meter {
		return &paced{spacing{most: s.Amount, units: s.Amount, long: int64(s.Window), lastLong: int64(s.Window)}}
	},
	Quota:       func(s Spec) meter { return newQuota(s) },
	Concurrency: func(s Spec) meter { return &concurrency{amount: s.Amount} },
	Adaptive:    func(s Spec) meter { return newAdaptive(s) },
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
	if old, ours := from.(meter); ours {
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
	list, within, counts := local.past(now)
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

// Carry makes a meter for a spec that counts the takes of another meter: units taken within
// the spec's window stay taken. Units beyond the whole limit are not owed: the old limit
// allowed them.
func Carry(now time.Time, list []Spent, to Spec) (Meter, error) {
	m, err := create(to)
	if err != nil {
		return nil, err
	}
	m.carry(now, list)
	return m, nil
}
