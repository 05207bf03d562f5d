package ledger

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rateOf is a RateBudget that gives all that is wanted.
type rateOf struct{ perSecond float64 }

func (r *rateOf) Rate(_ time.Time, perSecond float64)         { r.perSecond = perSecond }
func (*rateOf) Users() int64                                  { return 4 }
func (*rateOf) When(now time.Time, _ int64) (time.Time, bool) { return now, true }
func (*rateOf) Take(time.Time, int64)                         {}
func (*rateOf) Give(_, _ time.Time, _ int64)                  {}
func (*rateOf) Demand(time.Time, int64)                       {}
func (*rateOf) Asks(time.Time, int64) bool                    { return false }

// What others say of a hidden limit is taken over if it can be, and told to nobody again.
func TestWhatOthersFindIsTakenOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, b := time.Unix(1_700_000_000, 0), &rateOf{}
		p := NewHiddenRate(History{Accepted: rapid.Int64Range(0, 1000).Draw(t, "accepted"), Lasted: 10 * time.Second})
		p.Share(b, false, 4)
		p.Finding()
		slow := float64(maxRate)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "passes")))
			was := p.Rate()
			f := Finding{
				Rate: rapid.Float64().Draw(t, "rate"), Bad: rapid.Float64().Draw(t, "bad"),
				Fails: rapid.IntRange(-1, 20).Draw(t, "fails"), Refused: rapid.Bool().Draw(t, "refused"),
				Pause: time.Duration(rapid.Int64().Draw(t, "pause")),
			}
			p.AcceptFinding(now, f)
			if r := p.Rate(); r != was && r != f.Rate || math.IsNaN(r) || r != 0 && r < minRate || r > maxRate {
				t.Fatalf("the rate is %v after %v and %+v", r, was, f)
			}
			if _, news := p.Finding(); news {
				t.Fatalf("%+v is told again", f)
			}
			if r := p.Rate(); r > 0 && r == f.Rate {
				slow = r
			} else if r > 0 {
				slow = min(slow, r)
			}
			for range 5 { // it goes on at some time: one that tries goes before its turn
				at, ok := p.When(now, 1)
				if !ok || at.Sub(now) > 5*time.Minute+time.Duration(6*float64(time.Second)/slow) {
					t.Fatalf("the next goes after %v", at.Sub(now))
				}
				now = at
				p.Take(now, 1)
				p.Done(now.Add(time.Millisecond), now, 1, 0)
			}
			p.Finding()
			p.Demand(now, 1)
			if p.Rate() > 0 && b.perSecond != p.Rate() {
				t.Fatalf("the fleet has %v a second, and the rate is %v", b.perSecond, p.Rate())
			}
		}
	})
}
