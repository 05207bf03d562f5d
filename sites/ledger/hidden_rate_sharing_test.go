package ledger

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// What others say of a hidden limit is taken over if it can be, and told to nobody again. Whatever they say, a request goes
// at some time.
func TestWhatOthersFindIsTakenOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		p := NewHiddenRate(History{Accepted: rapid.Int64Range(0, 1000).Draw(t, "accepted"), Lasted: 10 * time.Second})
		p.Share("me", false, 4)
		p.Finding()
		slow := float64(maxRate)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "passes")))
			was := p.Rate()
			f := Finding{
				Rate: rapid.Float64().Draw(t, "rate"), Bad: rapid.Float64().Draw(t, "bad"),
				Fails: rapid.IntRange(-1, 20).Draw(t, "fails"),
			}
			p.AcceptFinding(now, f)
			if r := p.Rate(); r != was && r != f.Rate || math.IsNaN(r) || r != 0 && r < minRate || r > maxRate {
				t.Fatalf("the rate is %v after %v and %+v", r, was, f)
			}
			if _, news := p.Finding(); news {
				t.Fatalf("%+v is told again", f)
			}
			p.OtherUses(now, rapid.SampledFrom([]string{"a", "b", "z"}).Draw(t, "instance"), Use{
				Rate: rapid.Float64().Draw(t, "use"), Accepted: rapid.Int64().Draw(t, "accepted"), Refused: rapid.Bool().Draw(t, "refused"),
			})
			if r := p.Rate(); r > 0 && r == f.Rate {
				slow = r
			} else if r > 0 {
				slow = min(slow, r)
			}
			for range 5 { // the part of four instances is a quarter; one that tries goes before its turn
				at, ok := p.When(now, 1)
				if !ok || at.Sub(now) > 5*time.Minute+time.Duration(4*6*float64(time.Second)/slow) {
					t.Fatalf("the next goes after %v", at.Sub(now))
				}
				now = at
				p.Take(now, 1)
				p.Done(now.Add(time.Millisecond), now, 1, 0)
			}
			p.Finding()
		}
	})
}

// sharedRate is a meter of a rate that two instances have together.
func sharedRate(now time.Time, rate float64) *HiddenRate {
	p := NewHiddenRate(History{})
	p.Share("me", true, 2)
	p.AcceptFinding(now, Finding{Rate: rate})
	return p
}

// pace returns the requests per second of a meter in ten seconds, in which another instance tells its use.
func pace(p *HiddenRate, now time.Time, other Use) float64 {
	end, n := now.Add(10*time.Second), 0
	for ; now.Before(end); n++ {
		p.OtherUses(now, "other", other)
		if at, ok := p.When(now, 1); ok && at.After(now) {
			now = at
		}
		p.Take(now, 1)
	}
	return float64(n) / 10
}

// An instance uses what others leave, and at least an equal part.
func TestAnInstanceUsesWhatOthersLeave(t *testing.T) {
	for used, want := range map[float64]float64{0: 10, 2: 7.8, 5: 5, 9: 5} {
		now := time.Unix(1_700_000_000, 0)
		if got := pace(sharedRate(now, 10), now, Use{Rate: used}); math.Abs(got-want) > 0.5 {
			t.Errorf("of 10 a second, of which another uses %v, the instance uses %v, not %v", used, got, want)
		}
	}
}

// One instance finds out when refusals are over: the others wait as long as they hear of it. Of two, that with the smaller
// name does.
func TestOneInstanceFindsOutWhenRefusalsAreOver(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	waits := func(p *HiddenRate, at time.Time) bool {
		next, ok := p.When(at, 1)
		return !ok || next.After(at)
	}
	p := sharedRate(now, 10)
	p.OtherUses(now, "z", Use{Refused: true})
	if !waits(p, now.Add(3*time.Second)) || waits(p, now.Add(UseLasts)) {
		t.Error("an instance does not wait as long as another tells of a refusal")
	}
	p.OtherUses(now.Add(time.Second), "z", Use{Accepted: 1})
	if waits(p, now.Add(2*time.Second)) {
		t.Error("an instance waits after another was served")
	}
	for other, want := range map[string]bool{"a": true, "z": false} {
		p = sharedRate(now, 10)
		p.Take(now, 1)
		p.Refused(now, Refusal{Sent: now, Again: true})
		p.OtherUses(now, other, Use{Refused: true})
		if got := waits(p, now.Add(2*time.Second)); got != want {
			t.Errorf("both were refused, and with %q the instance waits: %v", other, got)
		}
	}
}

// TestWhoIsRefusedAtOnceTakesTheRateOfOthers: an instance that begins when others have used all of a limit has nothing accepted from
// which a rate follows.
func TestWhoIsRefusedAtOnceTakesTheRateOfOthers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	p := NewHiddenRate(History{})
	p.Share("me", false, 2)
	for range 8 {
		p.Take(now, 1)
	}
	for n := range 8 {
		at := now.Add(time.Duration(n+1) * 20 * time.Millisecond)
		p.Refused(at, Refusal{Sent: now})
		p.Done(at, now, 1, limit.Refused)
	}
	again := now.Add(5 * time.Second) // a request that tries
	p.Take(again, 1)
	p.Refused(again.Add(20*time.Millisecond), Refusal{Sent: again, Again: true})
	p.Done(again.Add(20*time.Millisecond), again, 1, limit.Refused)
	p.AcceptFinding(now.Add(6*time.Second), Finding{Rate: 2})
	sent := now.Add(13 * time.Second)
	p.Take(sent, 1)
	p.Done(sent.Add(20*time.Millisecond), sent, 1, limit.Success)
	if r := p.Rate(); r != 2 {
		t.Errorf("the rate is %v", r)
	}
	if f, news := p.Finding(); news {
		t.Errorf("%+v is told", f)
	}
}
