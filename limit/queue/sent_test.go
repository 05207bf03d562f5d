package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// A request that has to wait for its connection arrives late, and the one that
// takes its place a window later must not come too early for that.
func TestWhatIsSentLateCountsFromThen(t *testing.T) {
	for _, as := range []limit.As{limit.Rolling, limit.Fixed, limit.FirstUse, limit.Bucket} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(Bounds{}, nil)
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1900 * time.Millisecond))) // near an edge
			spec := &limit.Spec{As: as, Amount: 1, Window: time.Second, Burst: 2}
			ask := func() *Permit {
				p, err := g.Wait(context.Background(), Request{Site: "s", Limits: [][]Limit{{{Name: "l", Spec: spec, N: 1}}}})
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			began := time.Now()
			p := ask()
			time.Sleep(300 * time.Millisecond) // the connection
			p.Sent()
			p.Finish(Result{})
			p.Sent()                // too late to mean anything
			if as == limit.Bucket { // which has two, and then one a second
				ask().Finish(Result{})
			}
			ask().Finish(Result{})
			want := 1300 * time.Millisecond
			if as == limit.Fixed { // it counts in the window in which it is sent
				want = 1100 * time.Millisecond
			}
			if got := time.Since(began); got < want || got > want+20*time.Millisecond {
				t.Errorf("%s: the last went after %v, not %v", as, got, want)
			}
		})
	}
}

// Many that wait for their connections together keep nobody from a limit that has
// plenty.
func TestWhatIsSentLateTakesNothingTwice(t *testing.T) {
	for _, spec := range []limit.Spec{
		{As: limit.Rolling, Amount: 200, Window: time.Hour},
		{As: limit.Fixed, Amount: 200, Window: time.Hour},
		{As: limit.FirstUse, Amount: 200, Window: time.Hour},
		{As: limit.Bucket, Amount: 200, Window: time.Hour},
		{As: limit.Paced, Amount: 1e9, Window: time.Second},
		{As: limit.Quota, Amount: 200, Period: limit.Month},
		{As: limit.Concurrency, Amount: 200},
		{As: limit.Adaptive, Min: 1e6, Max: 1e9},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(Bounds{Wait: time.Minute}, nil)
			ask := func() *Permit {
				p, err := g.Wait(context.Background(), Request{Site: "s", Limits: [][]Limit{{{Name: "l", Spec: &spec, N: 1}}}})
				if err != nil {
					t.Fatal(spec.As, err)
				}
				return p
			}
			began := time.Now()
			var first []*Permit
			for range 100 {
				first = append(first, ask())
			}
			time.Sleep(100 * time.Millisecond)
			for _, p := range first {
				p.Sent()
				p.Finish(Result{})
				ask().Finish(Result{})
			}
			if took := time.Since(began); took > 101*time.Millisecond {
				t.Errorf("%s: %v", spec.As, took)
			}
		})
	}
}
