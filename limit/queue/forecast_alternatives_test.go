package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Two backends allow two requests in five seconds each.
func TestARequestWithAlternativesGoesWhenItIsExpectedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		spec := limit.Spec{As: limit.Rolling, Amount: 2, Window: 5 * time.Second}
		r := Request{
			Site: "a", Client: "x", Priority: DefaultPriority,
			Limits: [][]Limit{{{Name: "n", Key: "one", Spec: &spec, N: 1}}, {{Name: "n", Key: "two", Spec: &spec, N: 1}}},
			Order:  &turns{used: make([]uint64, 2)},
		}
		for range 4 {
			allow(t, g, r).Finish(Result{})
			time.Sleep(500 * time.Millisecond)
		}
		for range 6 {
			go func() { allow(t, g, r).Finish(Result{}) }()
			synctest.Wait()
		}
		e := g.Explain(r)
		allow(t, g, r).Finish(Result{})
		if wrong := time.Since(e.Expected); !e.Expected.IsZero() && (wrong > time.Second || wrong < -time.Second) {
			t.Errorf("place %d, it went %v after the expected time", e.Place, wrong)
		}
	})
}
