package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// A site that has no limit for a while remembers what was spent of the last one.
func TestWhatWasSpentIsRememberedWhileThereIsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Hour)
		per := func(name string, window time.Duration) Limit {
			return Limit{Name: name, N: 1, Spec: &limit.Spec{As: limit.Rolling, Amount: 10, Window: window}, Subject: &Subject{Unit: "requests"}}
		}
		first, second := per("first", time.Hour), per("second", 2*time.Hour)
		ask := func(l Limit) bool {
			p, err := g.Wait(t.Context(), Request{Site: "a", Limits: [][]Limit{{l}}, Wait: time.Second})
			if err == nil {
				p.Sent()
				p.Finish(Result{Outcome: limit.Success})
			}
			return err == nil
		}
		for range 10 {
			ask(first)
		}
		time.Sleep(time.Minute) // in which there is none
		g.CarryOver(time.Time{}, func(string) (_, _ []Limit) { return nil, []Limit{second} })
		g.CarryOver(time.Now(), func(string) (_, _ []Limit) { return nil, []Limit{second} })
		if ask(second) {
			t.Error("what the first limit had counted is forgotten")
		}
	})
}
