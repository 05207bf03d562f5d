package lease_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// Two processes of one machine use a limit, which becomes another one by a reload, and then what it was. The record of the
// limit is there since then, and has nothing of what was used meanwhile.
func TestALimitThatIsChangedAndChangedBackKeepsWhatSeveralProcessesUsed(t *testing.T) {
	fixed := limit.Spec{As: limit.Fixed, Amount: 10, Window: time.Hour}
	rolling := limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Hour}
	firstUse := limit.Spec{As: limit.FirstUse, Amount: 10, Window: time.Hour}
	quota := limit.Spec{As: limit.Quota, Amount: 10, Period: limit.Day}
	for _, c := range [][2]limit.Spec{{fixed, rolling}, {rolling, fixed}, {firstUse, quota}, {quota, firstUse}} {
		for first := range 2 {
			t.Run(fmt.Sprint(c[0].As, c[1].As, first), func(t *testing.T) {
				d := newInstance(t)
				d.members = 2
				accounts, went := []*lease.Account{d.other("p1"), d.other("p2")}, 0
				var meters [2]limit.Meter
				change := func(to limit.Spec) {
					for range 10 { // until nothing is to be told any more
						d.now = d.now.Add(500 * time.Millisecond)
						for _, a := range accounts {
							d.exchange(a)
						}
					}
					for i, a := range accounts {
						m, err := limit.New(to)
						if meters[i] != nil {
							m, err = limit.Carry(d.now, limit.PastOf(d.now, meters[i]), to)
						}
						if err != nil {
							t.Fatal(err)
						}
						carried := !m.Idle(d.now)
						if meters[i] = a.Durable(string(to.As), to, m, store.Origin{}); carried {
							meters[i].(interface{ Lost(now time.Time) }).Lost(d.now)
						}
					}
				}
				use := func(i, most int) {
					for got, tries := 0, 0; got < most && tries < 200; tries++ {
						if at, ok := meters[i].When(d.now, 1); ok && !at.After(d.now) {
							meters[i].Take(d.now, 1)
							got, went = got+1, went+1
						}
						d.now = d.now.Add(20 * time.Millisecond)
						for _, a := range accounts {
							d.exchange(a)
						}
					}
				}
				change(c[0])
				use(0, 2)
				use(1, 2)
				change(c[1])
				use(0, 2)
				use(1, 2)
				if went != 8 {
					t.Fatalf("%d of 8 went", went)
				}
				change(c[0])
				use(first, 5)
				use(1-first, 5)
				if went > 10 {
					t.Errorf("%d went of 10", went)
				}
			})
		}
	}
}

// The answer to an ask of before such a change does not have what was used meanwhile either.
func TestTheAnswerToAnAskBeforeAChangeForgetsNothingThatSeveralProcessesUsed(t *testing.T) {
	spec := limit.Spec{As: limit.Fixed, Amount: 10, Window: time.Hour}
	d := newInstance(t)
	d.members = 2
	a, other := d.other("p1"), d.other("p2")
	for i, account := range []*lease.Account{other, a, other, a} {
		fresh, _ := limit.New(spec)
		m := account.Durable("requests", spec, fresh, store.Origin{})
		m.When(d.now, 1)
		if i < 3 {
			d.exchange(account)
			m.Take(d.now, 1)
			continue
		}
		b, ok := account.Batch(d.now)
		if !ok {
			t.Fatal("nothing is asked")
		}
		r, err := d.store.Exchange(context.Background(), []store.Batch{b})
		if err != nil {
			t.Fatal(err)
		}
		carried, _ := limit.New(spec)
		carried.Take(d.now, 8)
		m = account.Durable("requests", spec, carried, store.Origin{})
		m.(interface{ Lost(now time.Time) }).Lost(d.now)
		account.Receive(d.now, &r[0], nil)
		d.exchange(account)
		if left := m.Left(d.now); left > 2 {
			t.Errorf("%d are left of 10 of which 8 were used", left)
		}
	}
}
