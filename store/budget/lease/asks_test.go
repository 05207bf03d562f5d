package lease_test

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

func asks(m limit.Meter, now time.Time, n int64) bool {
	return m.(interface {
		Asks(now time.Time, n int64) bool
	}).Asks(now, n)
}

// What is not leased yet is not used up, until the store has said that it is.
func TestASharedMeterTellsWhetherItKnows(t *testing.T) {
	d := newInstance(t)
	minute := limit.Spec{As: limit.Fixed, Amount: 10, Window: time.Minute}
	m := d.account.Shared("requests", minute, lease.Strict)
	m.When(d.now, 1)
	if !asks(m, d.now, 1) || asks(m, d.now, 11) {
		t.Error("before the store was asked")
	}
	batch, _ := d.account.Batch(d.now)
	d.now = d.now.Add(300 * time.Millisecond) // slow is not away
	if !asks(m, d.now, 1) {
		t.Error("while it is asked")
	}
	d.account.Receive(d.now, nil, errAway)
	if asks(m, d.now, 1) {
		t.Error("while it is away")
	}
	d.now = d.now.Add(time.Second)
	d.exchange(d.account)
	if n := d.takes(m, 20); n == 0 {
		t.Fatalf("nothing was granted after %+v", batch)
	}
	for range 20 {
		m.When(d.now, 1)
		d.exchange(d.account)
		d.takes(m, 20)
		d.now = d.now.Add(time.Second)
	}
	if asks(m, d.now, 1) {
		t.Error("it is used up, as the store has said")
	}
}

// The same of what waits for the journal.
func TestAKeptMeterTellsWhetherItKnows(t *testing.T) {
	d := newInstance(t)
	spec := limit.Spec{As: limit.Fixed, Amount: 2, Window: time.Hour}
	inside, err := limit.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	m := d.account.Durable("requests", spec, inside, store.Origin{})
	for i := range 2 {
		m.When(d.now, 1)
		if !asks(m, d.now, 1) || asks(m, d.now, 3) {
			t.Errorf("%d: before the journal knows", i)
		}
		d.exchange(d.account)
		if d.takes(m, 1) != 1 || i == 1 && asks(m, d.now, 1) {
			t.Errorf("%d: when it is written", i)
		}
	}
}
