package ledger

import (
	"testing"

	"github.com/abide-proxy/abide/limit/learn"
)

func TestALimitThatIsNotSaidAnyMoreDoesNotRestrain(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	d.hear(d.send(), d.says(3, 2, 60))
	d.v = 70
	for d.v < 3600 {
		if w := d.wait(); w != 0 {
			d.v += max(w, 1)
			continue
		}
		d.v += 0.1
		d.hear(d.send(), learn.Limit{})
	}
	d.v += 10
	for range 100 {
		d.send()
	}
}

// TestALimitThatEachAnswerSaidIsForgottenSoonerThanOneThatSomeSay: after 100 answers and a minute, not after an hour.
func TestALimitThatEachAnswerSaidIsForgottenSoonerThanOneThatSomeSay(t *testing.T) {
	t.Parallel()
	for said, goes := range map[int]bool{1: true, 20: false} {
		d := newDriver(t, Options{})
		var forgotten float64
		for n, left := 0, 3.; d.v < 600; {
			if w := d.wait(); w != 0 {
				d.v += max(w, .1)
				left = 3
				continue
			}
			d.v += 0.1
			left = max(left-1, 0)
			answer := learn.Limit{}
			if n++; d.v < 300 && n%said == 0 {
				answer = d.says(3, left, 1)
			}
			if d.hear(d.send(), answer); d.v > 300 && d.m.Left(d.now()) > 3 && forgotten == 0 {
				forgotten = d.v
			}
		}
		restored := New(Options{})
		if err := restored.Restore(d.now(), d.m.State()); err != nil || (restored.Left(d.now()) > 3) != goes {
			t.Errorf("after a restart %d are left: %v", restored.Left(d.now()), err)
		}
		if (forgotten > 0) != goes || goes && (forgotten < 360 || forgotten > 450) {
			t.Errorf("said by one answer of %d until 300 s: forgotten after %v s", said, forgotten)
		}
	}
}
