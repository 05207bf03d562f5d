package budget

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/reference"
)

// warned is a store of which something is to be changed.
type warned struct {
	reference.Unreliable
	warnings atomic.Pointer[[]string]
}

func (s *warned) Warnings(context.Context) []string { return *s.warnings.Load() }

// What is to be changed about a store is said when it is found, and again when the store
// comes back; the status has it as long as it is so.
func TestTheSettingsOfAStoreAreLookedAtWhenItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &warned{Unreliable: reference.Unreliable{Store: reference.New(nil)}}
		s.warnings.Store(&[]string{"it evicts"})
		c := newCounter(t, s, true, "one", perMinute, lease.Share)
		said := func(n int) {
			t.Helper()
			if got := strings.Count(c.logged(), "the store can be used, but: it evicts"); got != n {
				t.Errorf("it is said %d times, not %d: %s", got, n, c.logged())
			}
		}
		elapse(time.Hour)
		said(1)
		if list := c.keeper.Status().Warnings; len(list) != 1 || list[0] != "it evicts" {
			t.Errorf("%q", list)
		}
		s.Fails.Store(true)
		elapse(10 * time.Second)
		said(1)
		s.Fails.Store(false)
		elapse(10 * time.Second)
		said(2)
		s.warnings.Store(new([]string))
		elapse(10*time.Minute + 10*time.Second)
		if list := c.keeper.Status().Warnings; len(list) != 0 {
			t.Errorf("%q", list)
		}
		c.stop()
	})
}
