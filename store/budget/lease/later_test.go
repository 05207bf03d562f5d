package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// An answer that took long says little of when its window ends. What another one has
// said of the same window stays.
func TestASlowAnswerDoesNotForgetWhatAFastOneSaid(t *testing.T) {
	d := newInstance(t)
	d.now = d.now.Add(40 * time.Second)
	m := d.account.Shared("requests", minute, lease.Strict)
	m.(lease.Meter).Demand(d.now, 100)
	d.exchange(d.account)
	if n := d.takes(m, 200); n != 100 {
		t.Fatalf("%d went", n)
	}
	m.When(d.now, 1)
	b, ok := d.account.Batch(d.now)
	if !ok {
		t.Fatal("there is nothing to say")
	}
	r, err := d.store.Exchange(context.Background(), []store.Batch{b})
	if err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(240 * time.Millisecond)
	d.account.Receive(d.now, &r[0], nil)
	at, _ := m.When(d.now, 1)
	if end := begin.Truncate(time.Minute).Add(time.Minute); at.Sub(end).Abs() > time.Millisecond {
		t.Errorf("it goes on %v after the window has begun", at.Sub(end))
	}
}

// What waits for a rolling limit that is used up is given slots to come, and asks for
// nothing more until then.
func TestWhatWaitsForARollingLimitHasAPlaceInALaterSlot(t *testing.T) {
	spec := limit.Spec{As: limit.Rolling, Amount: 100, Window: time.Minute}
	d := newInstance(t)
	two := d.other("two")
	m, n := d.account.Shared("requests", spec, lease.Strict), two.Shared("requests", spec, lease.Strict)
	m.(lease.Meter).Demand(d.now, 100)
	d.exchange(d.account)
	if d.takes(m, 200) != 100 {
		t.Fatal("one alone does not get all")
	}
	began := d.now
	d.now = d.now.Add(10 * time.Second)
	n.(lease.Meter).Demand(d.now, 5)
	n.When(d.now, 5)
	d.exchange(two)
	at, ok := n.When(d.now, 5)
	wait := at.Sub(began)
	if !ok || wait < time.Minute || wait > time.Minute+2*time.Second {
		t.Fatalf("it may go %v after what has to end", wait)
	}
	asked := 0
	for d.now.Before(at) {
		n.When(d.now, 5)
		if d.exchange(two) {
			asked++
		}
		d.now = d.now.Add(time.Second)
	}
	d.now = at
	if asked > 1 {
		t.Errorf("it asked %d times meanwhile", asked)
	}
	if got := d.takes(n, 5); got != 5 {
		t.Errorf("%d of 5 go then", got)
	}
}

// A bucket that is changed has other windows. The answer to what was asked for the windows before
// grants nothing of them, whether it is changed back or not.
func TestTheAnswerToAnAskBeforeAChangeGrantsNothingAfterIt(t *testing.T) {
	before := limit.Spec{As: limit.Bucket, Amount: 60, Burst: 40, Window: time.Minute}
	after := limit.Spec{As: limit.Bucket, Amount: 60, Burst: 10, Window: time.Minute}
	for _, specs := range [][]limit.Spec{{after}, {after, before}} {
		d := newInstance(t)
		m := d.account.Shared("requests", before, lease.Strict)
		m.(lease.Meter).Demand(d.now, 20)
		b, ok := d.account.Batch(d.now)
		if !ok {
			t.Fatal("nothing is asked")
		}
		r, err := d.store.Exchange(context.Background(), []store.Batch{b})
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range specs {
			m = d.account.Shared("requests", spec, lease.Strict)
		}
		d.account.Receive(d.now, &r[0], nil)
		if n := d.takes(m, 100); n > 0 {
			t.Errorf("%d went without a lease", n)
		}
		m.(lease.Meter).Demand(d.now, 5)
		d.exchange(d.account)
		// Of the windows from before, the store has counted what was asked.
		if n := d.takes(m, 100); n != 5 && len(specs) == 1 || n > 0 && len(specs) == 2 {
			t.Errorf("%d went of half a burst", n)
		}
	}
}
