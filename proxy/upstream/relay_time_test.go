package upstream

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestASliceThatMovesKeepsARelay holds that a relay rests from the last byte that a
// receiver acknowledged, though the slice towards it has not ended.
func TestASliceThatMovesKeepsARelay(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration // a byte is acknowledged
		cut   bool
	}{
		{"often", time.Second, false},
		{"seldom", 50 * time.Second, false},
		{"never", time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const idle = time.Minute
				near, far := net.Pipe()
				defer near.Close()
				defer far.Close()
				r := &relay{client: newSide(near), origin: newSide(far), o: RelayOptions{Idle: idle}, tick: uncountedTime, start: time.Now()}
				r.origin.ackedBytes = func() uint64 { return uint64(time.Since(r.start) / c.every) }
				time.Sleep(time.Millisecond)
				r.origin.sliceBegan.Store(int64(time.Since(r.start)))
				for time.Since(r.start) < 20*time.Minute {
					time.Sleep(idle / 4)
					if r.idleLeft() <= 0 {
						if took := time.Since(r.start); !c.cut || took > 2*idle {
							t.Errorf("cut after %v", took)
						}
						return
					}
				}
				if c.cut {
					t.Error("never cut")
				}
			})
		})
	}
}
