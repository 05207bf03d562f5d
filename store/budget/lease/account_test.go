package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/reference"
)

var errAway = errors.New("away")

// instance has an account of one instance beside a store.
type instance struct {
	t       *testing.T
	now     time.Time
	store   *reference.Store
	account *lease.Account
	seq     uint64
	members int
	bells   int
	news    []store.Note // of the last exchange
}

func newInstance(t *testing.T) *instance {
	d := &instance{t: t, now: begin.Truncate(time.Minute).Add(10 * time.Second), members: 1}
	d.store = reference.New(func() time.Time { return d.now })
	d.account = d.other("one")
	return d
}

func (d *instance) other(id string) *lease.Account {
	return lease.NewAccount("site", lease.Options{
		Instance: id,
		Seq:      func() uint64 { d.seq++; return d.seq },
		OnDue:    func() { d.bells++ },
		Members:  func() int { return d.members },
	})
}

// exchange has an account say what it has to say; false when that is nothing.
func (d *instance) exchange(a *lease.Account) bool {
	d.news = nil
	b, ok := a.Batch(d.now)
	if !ok {
		return false
	}
	r, err := d.store.Exchange(context.Background(), []store.Batch{b})
	if err != nil {
		d.t.Fatal(err)
	}
	d.news = a.ReceiveNotes(d.now, r[0].Notes)
	a.Receive(d.now, &r[0], nil)
	return true
}

// takes takes one after the other until something has to be waited for.
func (d *instance) takes(m limit.Meter, most int) (n int) {
	for ; n < most; n++ {
		if at, ok := m.When(d.now, 1); !ok || at.After(d.now) {
			break
		}
		m.Take(d.now, 1)
	}
	return n
}

var minute = limit.Spec{As: limit.Fixed, Amount: 100, Window: time.Minute}

func TestAMeterAsksWhenSomethingWaits(t *testing.T) {
	d := newInstance(t)
	m := d.account.Shared("requests", minute, lease.Strict)
	if n := d.takes(m, 1); n != 0 {
		t.Fatal("something went without a lease")
	}
	if d.bells != 1 || d.account.Due().After(d.now) {
		t.Errorf("the bell rang %d times, and there is something to say at %v", d.bells, d.account.Due())
	}
	m.(lease.Meter).Demand(d.now, 30)
	if !d.exchange(d.account) {
		t.Fatal("there was nothing to say")
	}
	if n := d.takes(m, 100); n < 30 {
		t.Errorf("%d went of the 30 that waited", n)
	}
}

func TestWhatIsUnspentGoesBack(t *testing.T) {
	d := newInstance(t)
	m := d.account.Shared("requests", minute, lease.Strict)
	m.(lease.Meter).Demand(d.now, 100)
	d.exchange(d.account)
	d.takes(m, 10)
	d.now = d.account.Due()
	if !d.exchange(d.account) {
		t.Fatal("nothing was given back")
	}
	two := d.other("two")
	n := two.Shared("requests", minute, lease.Strict)
	n.(lease.Meter).Demand(d.now, 100)
	d.exchange(two)
	if left := n.Left(d.now); left != 25 {
		t.Errorf("the other got %d of the 90 that are left, not a quarter of the window", left)
	}
}

func TestAnInstanceThatStopsGivesBackAtOnce(t *testing.T) {
	d := newInstance(t)
	m := d.account.Shared("requests", minute, lease.Strict)
	m.(lease.Meter).Demand(d.now, 100)
	d.exchange(d.account)
	d.takes(m, 10)
	m.(lease.Meter).Demand(d.now, 0)
	d.account.Release(d.now)
	if !d.exchange(d.account) || m.Left(d.now) != 0 {
		t.Errorf("%d are left", m.Left(d.now))
	}
	if m.Idle(d.now) {
		t.Error("what was taken is forgotten in its window")
	}
	d.now = d.now.Add(time.Minute)
	if d.exchange(d.account); !m.Idle(d.now) {
		t.Error("what was taken is remembered after its window")
	}
}

func TestAnAnswerThatComesTwiceOrLateRaisesNothing(t *testing.T) {
	d := newInstance(t)
	m := d.account.Shared("requests", minute, lease.Strict)
	m.(lease.Meter).Demand(d.now, 20)
	b, _ := d.account.Batch(d.now)
	r, _ := d.store.Exchange(context.Background(), []store.Batch{b})
	d.account.Receive(d.now, nil, errAway)
	d.account.Receive(d.now, &r[0], nil)
	if n := m.Left(d.now); n != 0 {
		t.Fatalf("%d came with an answer that was late", n)
	}
	d.now = d.account.Due()
	b2, ok := d.account.Batch(d.now)
	if !ok || len(b2.Asks[0].Holds) != 0 {
		t.Fatalf("what was lost is not given back: %+v", b2)
	}
	d.account.Receive(d.now, &r[0], nil) // that of the first
	if n := m.Left(d.now); n != 0 {
		t.Fatalf("%d came with the answer to another batch", n)
	}
	r2, _ := d.store.Exchange(context.Background(), []store.Batch{b2})
	d.account.Receive(d.now, &r2[0], nil)
	n := m.Left(d.now)
	d.account.Receive(d.now, &r2[0], nil)
	if again := m.Left(d.now); n < 20 || again != n {
		t.Errorf("%d, and %d when it was heard again", n, again)
	}
}

func TestWhileTheStoreIsAway(t *testing.T) {
	for _, c := range []struct {
		name         string
		outage       lease.Outage
		here, beyond int // what goes beside what was leased in this window, and in the next
	}{
		{"strict", lease.Strict, 0, 0},
		{"share", lease.Share, 19, 25}, // of 76 that were left, and of 100, by four
		{"open", lease.Open, 76, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newInstance(t)
			d.members = 4
			m := d.account.Shared("requests", minute, c.outage)
			m.(lease.Meter).Demand(d.now, 20)
			d.exchange(d.account)
			if n := d.takes(m, 200); n != 24 { // and those that may follow at this pace
				t.Fatalf("%d went", n)
			}
			m.When(d.now, 1)
			if _, ok := d.account.Batch(d.now); !ok {
				t.Fatal("nothing was asked")
			}
			if n := d.takes(m, 200); n != 0 {
				t.Fatalf("%d went although the answer may come", n)
			}
			at, _ := m.When(d.now, 1)
			if wait := at.Sub(d.now); wait > 50*time.Millisecond {
				t.Errorf("it waits for %v", wait)
			}
			d.now = d.now.Add(time.Second - 1)
			if n := d.takes(m, 200); n != 0 {
				t.Fatalf("%d went although the store may only be slow", n)
			}
			d.now = d.now.Add(1)
			if n := d.takes(m, 200); n != c.here {
				t.Errorf("%d went of this window, not %d", n, c.here)
			}
			d.account.Receive(d.now, nil, errAway)
			d.now = d.now.Add(time.Minute)
			if n := d.takes(m, 200); n != c.beyond {
				t.Errorf("%d went of the next window, not %d", n, c.beyond)
			}
			if loans := d.account.Report().Loans; c.here > 0 && (len(loans) != 1 || loans[0].N != int64(c.here) || loans[0].Amount != 100 || loans[0].Away != time.Second) {
				t.Errorf("told of as lent: %+v", loans)
			}
			// What was taken without the store is said to it.
			if !d.exchange(d.account) {
				t.Error("there is nothing to say")
			}
			two := d.other("two")
			n := two.Shared("requests", minute, lease.Strict)
			n.(lease.Meter).Demand(d.now, 100)
			d.exchange(two)
			if left := n.Left(d.now); left > int64(100-c.beyond) {
				t.Errorf("the other got %d although %d were taken", left, c.beyond)
			}
		})
	}
}

// What was held in slots that count no more is no reason to stand still.
func TestARollingLimitGoesOnWhileTheStoreIsAway(t *testing.T) {
	for _, outage := range []lease.Outage{lease.Share, lease.Open} {
		d := newInstance(t)
		m := d.account.Shared("requests", limit.Spec{As: limit.Rolling, Amount: 100, Window: 10 * time.Second}, outage)
		m.(lease.Meter).Demand(d.now, 100)
		d.exchange(d.account)
		went, latest := d.takes(m, 200), 0
		for step := range 600 {
			d.now = d.now.Add(100 * time.Millisecond)
			m.When(d.now, 1)
			if _, ok := d.account.Batch(d.now); ok {
				d.account.Receive(d.now, nil, errAway)
			}
			if n := d.takes(m, 200); n > 0 {
				went, latest = went+n, step
			}
		}
		if went < 400 || went > 700 || latest < 450 {
			t.Errorf("%s: %d went in a minute, the last after %d ms", outage, went, latest*100)
		}
	}
}

func TestAfterALossNothingIsWantedUntilAllHaveSaidWhatTheyHold(t *testing.T) {
	d := newInstance(t)
	m := d.account.Shared("requests", minute, lease.Strict)
	m.(lease.Meter).Demand(d.now, 60)
	d.exchange(d.account)
	d.takes(m, 60)
	two := d.other("two")
	n := two.Shared("requests", minute, lease.Strict)
	n.(lease.Meter).Demand(d.now, 10)
	d.exchange(two)
	d.takes(n, 10)
	d.store.Lose()
	n.(lease.Meter).Demand(d.now, 100)
	n.When(d.now, 1)
	d.exchange(two) // finds out, and has said what it holds
	d.exchange(two)
	if left := n.Left(d.now); left != 0 {
		t.Fatalf("%d came from a store that knows nothing", left)
	}
	p, _ := d.store.Pulse(context.Background(), store.Member{})
	d.account.NewGeneration(d.now, p.Generation)
	if !d.exchange(d.account) {
		t.Fatal("what is held was not said again")
	}
	d.now = d.now.Add(store.RecoveryTime)
	for range 10 {
		n.When(d.now, 1)
		d.exchange(two)
		d.takes(n, 100)
		d.now = d.now.Add(time.Second)
	}
	if wrong := d.takes(n, 100); wrong != 0 {
		t.Errorf("%d went at the end", wrong)
	}
	r := n.(interface{ Rest(time.Time) int64 }).Rest(d.now)
	if r != 0 {
		t.Errorf("%d are thought to be left", r)
	}
}

func TestNotesAreHandedOnOnce(t *testing.T) {
	d := newInstance(t)
	two := d.other("two")
	note := store.Note{Key: "cool", Until: d.now.Add(time.Minute), Text: "503"}
	d.account.AddNote(d.now, note)
	d.account.AddNote(d.now, note)
	if !d.exchange(d.account) || d.exchange(d.account) {
		t.Error("a note is said once")
	}
	if len(d.news) != 0 {
		t.Errorf("what was said is news: %v", d.news)
	}
	m := two.Shared("requests", minute, lease.Strict)
	m.When(d.now, 1)
	d.exchange(two)
	if len(d.news) != 1 || d.news[0].Text != "503" {
		t.Errorf("the news are %v", d.news)
	}
	m.(lease.Meter).Demand(d.now, 90)
	d.exchange(two)
	if len(d.news) != 0 {
		t.Errorf("the same is news again: %v", d.news)
	}
}

func TestANoteThatMayBeLostIsSaidAgain(t *testing.T) {
	d := newInstance(t)
	d.account.AddNote(d.now, store.Note{Key: "cool", Until: d.now.Add(time.Minute)})
	d.account.Batch(d.now)
	d.account.Receive(d.now, nil, errAway)
	if due := d.account.Due(); !due.After(d.now) {
		t.Error("it is tried again at once")
	}
	d.now = d.account.Due()
	if b, ok := d.account.Batch(d.now); !ok || len(b.Notes) != 1 {
		t.Errorf("said again: %+v", b)
	}
}

func TestADebtIsPaidBeforeAnythingElse(t *testing.T) {
	d := newInstance(t)
	m := d.account.Shared("bytes", minute, lease.Strict)
	m.(lease.Meter).Demand(d.now, 10)
	d.exchange(d.account)
	at := d.now
	d.takes(m, 10)
	m.Settle(d.now, at, 1, 41)
	if !d.exchange(d.account) {
		t.Fatal("a debt is not paid")
	}
	two := d.other("two")
	n := two.Shared("bytes", minute, lease.Strict)
	n.(lease.Meter).Demand(d.now, 100)
	d.exchange(two)
	if left := n.Left(d.now); left > 25 { // half of the 50 that are left
		t.Errorf("the other got %d", left)
	}
}

func TestOnlySomeLimitsAreShared(t *testing.T) {
	for _, c := range []struct {
		spec limit.Spec
		is   bool
	}{
		{minute, true},
		{limit.Spec{As: limit.Rolling, Amount: 1, Window: time.Second}, true},
		{limit.Spec{As: limit.FirstUse, Amount: 1, Window: time.Second}, true},
		{limit.Spec{As: limit.Quota, Amount: 1, Period: limit.Month}, true},
		{limit.Spec{As: limit.Bucket, Amount: 2, Window: time.Second}, true},
		{limit.Spec{As: limit.Bucket, Amount: 2, Window: time.Second, Burst: 1}, false},
		{limit.Spec{As: limit.Paced, Amount: 2, Window: time.Second}, false},
		{limit.Spec{As: limit.Concurrency, Amount: 2}, false},
		{limit.Spec{As: limit.Adaptive, Min: 1, Max: 2}, false},
		{limit.Spec{As: limit.Fixed}, false},
	} {
		if got := c.spec.Shareable(); got != c.is {
			t.Errorf("%+v: %v", c.spec, got)
		}
	}
}
