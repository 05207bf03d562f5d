package tokens

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// Many sites use a pool at once, while it is reloaded and looked at.
func TestAPoolIsSafeForConcurrentUse(t *testing.T) {
	w := many(t, 8)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				now := start.Add(time.Duration(n) * time.Second)
				set := w.pool.Set()
				k := len(set.Tokens())
				if k == 0 {
					continue
				}
				var d Denials
				token := set.Tokens()[set.pick([]int{n % k, (n + i) % k}, now)]
				w.pool.Begin(now, token, "r")
				switch n % 8 {
				case 0:
					w.pool.Cool(now, token, "r", now.Add(time.Second), "")
				case 1:
					w.pool.Deny(now, token, Answer{Status: 401, Sent: now}, &d)
					set.pickFor([]int{0, k - 1}, now, &d)
					w.pool.Success(now, set.Tokens()[k-1], Answer{Sent: now}, &d)
				case 2:
					if _, err := w.pool.Reload(now, w.config(), loaded("t0@x=s0", fmt.Sprintf("t1@%d=s1", i%2), "t2@x=s2", "x=s9")); err != nil {
						t.Error(err)
					}
				case 3:
					_, _ = w.pool.Switch(token.Label(), "by the operator")
					_, _ = w.pool.Switch(token.Label(), "")
				case 4:
					if _, err := w.pool.Reload(now, w.config(), loaded("t0=s0", "t1=s1", "t2=s2", "x=s9")); err != nil {
						t.Error(err)
					}
				case 5:
					w.pool.Status(now)
					w.pool.Restore(now, w.pool.SavedStates(now))
					w.pool.Stable(token.Budget())
					w.pool.ApplyQuarantine(now, SavedState{Token: token.Stable(), Quarantined: now.Add(time.Minute)})
				default:
					w.pool.Success(now, token, Answer{Sent: now}, nil)
					_ = token.Budget()
					w.pool.EndWithoutAnswer(token, now)
				}
			}
		})
	}
	all.Wait()
}
