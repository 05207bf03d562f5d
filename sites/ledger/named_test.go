package ledger

import (
	"math"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// bucketDriver returns a driver whose ledger has heard of a bucket of 60 units, one a second: the
// reset is when it is full.
func bucketDriver(t *testing.T, unsure bool) *driver {
	d := newDriver(t, Options{})
	for n := range 20 {
		d.v += 0.05
		d.hear(d.send(), d.says(60, 59-float64(n), float64(n+1)))
	}
	l := d.m.(*Ledger)
	if l.allowance.kind != refilling {
		t.Fatalf("the kind is %s", kinds[l.allowance.kind])
	}
	if unsure {
		l.allowance.kind = undecided
	}
	return d
}

// TestABucketIsNotAwaitedUntilItIsFull is for a refusal that names no time, or names one.
func TestABucketIsNotAwaitedUntilItIsFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		named, unsure bool
		least, most   float64
	}{
		"the time is that of the reset":       {false, false, 0.5, 2},
		"the same, of a limit of unsure kind": {false, true, 0.5, 2},
		"the server named the time":           {true, false, 40, 40},
		"it named the time of an unsure one":  {true, true, 40, 40},
	} {
		d := bucketDriver(t, c.unsure)
		sent := d.send()
		d.v += 0.1
		said := d.says(60, 0, 40)
		news := d.m.(*Ledger).Update(d.now(), Answer{Sent: sent, Units: 1, Limit: said, Refused: true, RetryAt: said.Reset, Named: c.named})
		wait := d.wait()
		if wait < c.least-1e-6 || wait > c.most+1e-6 {
			t.Errorf("%s: waits for %v s", name, wait)
		}
		if until := news.Until.Sub(d.now()).Seconds(); math.Abs(until-wait) > 1e-6 {
			t.Errorf("%s: it is said to wait for %v s, and waits for %v", name, until, wait)
		}
	}
	d := newDriver(t, Options{})
	if news := d.hear(d.send(), learn.Limit{Limit: some(10), Remaining: some(9), Reset: seconds(60), Resolution: time.Second}); !news.Until.IsZero() {
		t.Errorf("a served request: until %v", news.Until)
	}
}
