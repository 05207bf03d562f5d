package limit_test

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// kind is what the tests of this package have to know of a kind. If you add a kind, add its row to kinds:
// with it the kind is in every test that has a life, a spec or a state of each kind.
type kind struct {
	spec   limit.Spec // of 5 units, and 5 at once; its As is the key
	keeps  func(s limit.Spec, h *history, e *event) string
	older  string // the state of spec in version 2, after three takes in three seconds; "" if the kind is newer
	floats bool   // it counts in floating point, so its times are wrong by some nanoseconds
}

// kinds has a row for each kind. keeps is called after each take e of a random life, with the spec of the
// life. It says how the limit was exceeded, or "".
var kinds = map[limit.As]kind{
	limit.Rolling: {
		spec:  limit.Spec{Amount: 5, Window: time.Minute},
		keeps: keepsAnyWindow,
		older: "020180909ddfcff990a1310000000080909ddfcff990a13106000280a8d6b9070280a8d6b907020004a0edd1fa030280a8d6b90702020002",
	},
	limit.Fixed: {
		spec:  limit.Spec{Amount: 5, Window: time.Minute},
		keeps: keepsAlignedWindows,
		older: "020280909ddfcff990a1310000000080909ddfcff990a13106000280a8d6b9070280a8d6b907020a0680908e91b00300",
	},
	limit.FirstUse: {
		spec:  limit.Spec{Amount: 5, Window: time.Minute},
		keeps: keepsWindowsOfAServer,
		older: "020380909ddfcff990a1310000000080909ddfcff990a13106000280a8d6b9070280a8d6b907020a060280908e91b00300",
	},
	limit.Bucket: {
		spec:   limit.Spec{Amount: 5, Window: time.Minute, Burst: 5},
		keeps:  keepsBurstAndRate,
		older:  "020480909ddfcff990a1310000000080909ddfcff990a13106000280a8d6b9070280a8d6b90702e08afbe780029f95a8b40b8090dfc04affcfacf30e5555555555550140",
		floats: true,
	},
	limit.Paced: {
		spec:  limit.Spec{Amount: 5, Window: time.Minute},
		keeps: keepsItsDistance,
		older: "020580909ddfcff990a1310000000080909ddfcff990a13106000280a8d6b9070280a8d6b9070280d0f6a8fd01",
	},
	limit.Quota: {
		spec:  limit.Spec{Amount: 5, Period: limit.Day},
		keeps: keepsAlignedWindows,
		older: "020680909ddfcff990a1310000000080909ddfcff990a13106000280a8d6b9070280a8d6b907020a0680f0fa9d9aba0200",
	},
	limit.Concurrency: {
		spec:  limit.Spec{Amount: 5},
		keeps: keepsInFlight,
		older: "020780909ddfcff990a1310000000000000000",
	},
	limit.Adaptive: {
		spec:  limit.Spec{Min: 0.2, Max: 20},
		keeps: keepsItsMaximum,
		older: "020880909ddfcff990a1310000000080909ddfcff990a13106000280a8d6b9070280a8d6b9070200000000000000400000000000000000008094ebdc0380909ddfcff990a131000000",
	},
}

// all has a spec of each kind, in the order of their numbers.
var all = func() (list []limit.Spec) {
	for _, as := range kindsWith(func(limit.Traits) bool { return true }) {
		s := kinds[as].spec
		s.As = as
		list = append(list, s)
	}
	return list
}()

// windowed are the kinds with an amount for a time.
var windowed = kindsWith(func(t limit.Traits) bool { return t.Windowed })

func kindsWith(wanted func(limit.Traits) bool) (list []limit.As) {
	for _, name := range limit.KindsWith(wanted) {
		list = append(list, limit.As(name))
	}
	return list
}

func TestEachKindHasItsRow(t *testing.T) {
	if len(limit.Kinds()) != len(kinds) {
		t.Errorf("there are %d kinds, and %d are tested", len(limit.Kinds()), len(kinds))
	}
	for n, name := range limit.Kinds() {
		row, ok := kinds[limit.As(name)]
		switch {
		case !ok, row.keeps == nil:
			t.Errorf("%s has no row in kinds, or no function that tells whether the limit is kept", name)
		case n < 8 && row.older == "":
			t.Errorf("%s has no state of version 2, which had it", name)
		}
	}
}

func TestEachKindDoesWhatItsTraitsSay(t *testing.T) {
	for _, spec := range all {
		if !spec.Traits().Adapts {
			spec.Amount = 100
		}
		if spec.Traits().Burst {
			spec.Burst = 50
		}
		t.Run(string(spec.As), func(t *testing.T) { testTraits(t, spec) })
	}
}

// testTraits compares what a meter does with the traits of its kind.
func testTraits(t *testing.T, spec limit.Spec) {
	traits, now := spec.Traits(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m, err := limit.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m.When(now, spec.AtOnce()); !ok {
		t.Errorf("%d cannot be taken at once", spec.AtOnce())
	}
	if _, ok := m.When(now, spec.AtOnce()+1); ok && !traits.Adapts {
		t.Errorf("more than %d can be taken", spec.AtOnce())
	}
	if traits.Windowed != (spec.Length() > 0) || traits.Windowed && (traits.InFlight || traits.Adapts) {
		t.Errorf("%+v, and its windows are %v long", traits, spec.Length())
	}
	if traits.Calendar && spec.Length() < 24*time.Hour {
		t.Errorf("a calendar's window is %v long", spec.Length())
	}
	m.Take(now, 1)
	next, _ := m.When(now, 1)
	if spaced := next.After(now); spaced != (traits.Spaced || traits.Adapts) {
		t.Errorf("after a unit the next one waits: %v", spaced)
	}
	whole := spec.AtOnce()
	if traits.Adapts {
		return
	}
	m.Take(now, max(whole-1, 0))
	back := now.Add(spec.Length())
	switch full, _ := m.When(now, whole); traits.Returns {
	case limit.OnDone:
		if full != limit.Unknown {
			t.Errorf("it comes back at %v, and nothing is done", full)
		}
	case limit.Continuously:
		if at, _ := m.When(now, 1); !at.Before(full) && !traits.Spaced {
			t.Error("nothing is back before all is")
		}
	case limit.AtEdges:
		if full.After(back) {
			t.Errorf("the window ends only at %v", full)
		}
	case limit.AsTaken, limit.AfterFirstUse:
		if full.Before(back) || full.After(back.Add(time.Minute)) {
			t.Errorf("all is back at %v, a window after now is %v", full, back)
		}
	}
	if spec.Shareable() != (traits.Fleet != limit.EachItsOwn) {
		t.Errorf("a fleet shares it: %v", spec.Shareable())
	}
	fresh, _ := limit.New(spec)
	if err := fresh.Restore(now, m.State()); err != nil {
		t.Error(err)
	}
	if left := fresh.Left(now); traits.InFlight != (left == whole) {
		t.Errorf("%d of %d are left after a restart", left, whole)
	}
}
