package sites

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
)

// lateGate has one meter. Its time is later than the arrival of an answer by the time that others held
// its lock.
type lateGate struct {
	now time.Time
	m   limit.Meter
}

func (g *lateGate) Update(list []queue.Update) {
	for i := range list {
		list[i].Apply(g.now, g.m)
	}
}

// TestAnswersThatWaitForTheGateMoveNoClock: 32 clients of 20 per 10 s once had their windows end 1 to 50 ms
// too early, because an answer that was applied late looked like a clock that was set back.
func TestAnswersThatWaitForTheGateMoveNoClock(t *testing.T) {
	t.Parallel()
	s := New(Options{}).Open("site.test")
	g := &lateGate{now: day0, m: ledger.New(ledger.Options{})}
	reset := day0.Add(10 * time.Second)
	for i := range 20 {
		sent := g.now
		g.m.Take(sent, 1)
		c, _ := s.Class("GET", "", "/", 0)
		lesson := &learn.Lesson{Limits: []learn.Limit{{
			Limit: learn.Amount{N: 20, Known: true}, Remaining: learn.Amount{N: float64(19 - i), Known: true}, Reset: reset, Relative: true, Window: 10 * time.Second,
		}}}
		arrived := g.now.Add(time.Millisecond)
		g.now = arrived.Add(5 * time.Millisecond)
		g.m.When(g.now, 1) // another client held the lock
		s.LearnFrom(&Answer{At: arrived, Class: c, Sent: sent, Lesson: lesson}, g)
		g.m.Done(g.now, sent, 1, limit.Success)
	}
	if at, _ := g.m.When(g.now, 1); at.Before(reset) {
		t.Errorf("the next goes %v before the reset", reset.Sub(at))
	}
}
