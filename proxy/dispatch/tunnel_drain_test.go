package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/dispatch/dispatchtest"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/status"
)

// TestATunnelThatIsHeldIsRefusedAtAStop holds a CONNECT by a pause, which goes on longer than the stop.
func TestATunnelThatIsHeldIsRefusedAtAStop(t *testing.T) {
	dispatchtest.Run(t, nil, "", func(w *dispatchtest.Rig) {
		if err := w.PauseSite(context.Background(), "a.test", status.Pause{Since: time.Now(), Until: time.Now().Add(5 * time.Minute)}); err != nil {
			t.Fatal(err)
		}
		answered := make(chan *problem.Problem)
		go func() {
			to := policy.Target{Scheme: "https", Host: "a.test", Port: 443}
			_, refused := w.OpenTunnel(context.Background(), &dispatch.Request{Snapshot: w.Current(), Caller: dispatch.NoCaller{}, Target: to})
			answered <- refused
		}()
		synctest.Wait()
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		go w.DrainQueue(soon)
		if got := <-answered; got == nil || got.Reason != problem.Draining.Reason {
			t.Errorf("answered %v", got)
		}
	})
}
