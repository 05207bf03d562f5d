package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
)

// A request that has to wait for its connection arrives late, and the one that
// takes its place a window later must not come too early for that.
func TestWhatIsSentLateCountsFromThen(t *testing.T) {
	for _, as := range []limit.As{limit.Rolling, limit.Fixed, limit.FirstUse, limit.Bucket} {
		synctest.Test(t, func(t *testing.T) {
			g := queue.NewGate(queue.Bounds{})
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1900 * time.Millisecond))) // near an edge
			spec := &limit.Spec{As: as, Amount: 1, Window: time.Second, Burst: 2}
			ask := func() *queue.Permit {
				p, err := g.Wait(context.Background(), queue.Request{Site: "s", Limits: [][]queue.Limit{{{Name: "l", Spec: spec, N: 1}}}})
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			began := time.Now()
			p := ask()
			time.Sleep(300 * time.Millisecond) // the connection
			p.Sent()
			p.Finish(queue.Result{})
			p.Sent()                // too late to mean anything
			if as == limit.Bucket { // which has two, and then one a second
				ask().Finish(queue.Result{})
			}
			ask().Finish(queue.Result{})
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
