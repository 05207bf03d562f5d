package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

func TestAPermitTellsWhichLimitKeptItForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		window := limit.Spec{As: limit.Rolling, Amount: 1, Window: 10 * time.Second}
		spaced := limit.Spec{As: limit.Paced, Amount: 10, Window: 5 * time.Second}
		both := Request{Site: "a", Client: "x", Priority: DefaultPriority, Limits: [][]Limit{{
			{Name: "window", Spec: &window, N: 1}, {Name: "spaced", Spec: &spaced, N: 1},
		}}}
		request := both
		request.Limits = [][]Limit{{both.Limits[0][1]}}
		allow(t, g, both).Finish(Result{})
		kept := make(chan string)
		go func() {
			p := allow(t, g, both) // waits 10 s for the window, and then 0.4 s more
			kept <- p.BlockedBy()
			p.Finish(Result{})
		}()
		time.Sleep(9900 * time.Millisecond)
		allow(t, g, request).Finish(Result{})
		began := time.Now()
		if by := <-kept; by != "window" || time.Since(began) < 300*time.Millisecond {
			t.Errorf("kept by %q, %v after another took what it needs", by, time.Since(began))
		}
	})
}
