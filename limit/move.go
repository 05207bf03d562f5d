package limit

import (
	"reflect"
	"time"
)

// meter is a Meter of this package, with what Move needs: a configuration that is reloaded may change
// a limit to another kind, and what was taken stays taken. A meter has a history, to which Take and
// Settle add and from which Give removes, and State stores it. bucket.go shows all of it.
type meter interface {
	Meter

	// at is the time on the meter's clock, with everything done that is due by then.
	at(now time.Time) int64

	// past is the history.
	past() *history

	// counted returns how many units count at v within a length of time, remembered or not.
	counted(v int64) (within, units int64)

	// replay makes a new meter count the takes of another, which are in its history.
	replay(v int64, list []Spent)

	// become changes the meter to the numbers of to, a new meter of its type. It returns nil
	// if both are too different. list is the meter's own past. Earlier takes can still be
	// given back and settled.
	become(now time.Time, to Meter, list []Spent) Meter
}

// record is the clock and the history of a meter that measures lengths of time.
type record struct {
	clock Clock
	spent history
}

func (r *record) at(now time.Time) int64 { return r.clock.At(now) }

func (r *record) past() *history { return &r.spent }

func (r *record) Done(_, _ time.Time, _ int64, _ Outcome) {}

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
