package proxy

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/store"
)

// warned is a store of which something is to be changed.
type warned struct {
	trouble
	warnings atomic.Pointer[[]string]
}

func (s *warned) Warnings(context.Context) []string { return *s.warnings.Load() }

// What is to be changed about a store is said when it is found, and again when the store
// comes back; the status has it as long as it is so.
func TestTheSettingsOfAStoreAreLookedAtWhenItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &warned{trouble: trouble{Store: store.NewMemory(nil)}}
		s.warnings.Store(&[]string{"it evicts"})
		c := newCounter(t, s, true, "one", perMinute, lease.Share)
		text := c.desk.log.Out.(*syncBuffer)
		said := func(n int) {
			t.Helper()
			if is := strings.Count(text.String(), "the store can be used, but: it evicts"); is != n {
				t.Errorf("it is said %d times, not %d: %s", is, n, text)
			}
		}
		elapse(time.Hour)
		said(1)
		if list := c.desk.status().Warnings; len(list) != 1 || list[0] != "it evicts" {
			t.Errorf("%q", list)
		}
		s.fails.Store(true)
		elapse(10 * time.Second)
		said(1)
		s.fails.Store(false)
		elapse(10 * time.Second)
		said(2)
		s.warnings.Store(new([]string))
		elapse(inspectEvery + 10*time.Second)
		if list := c.desk.status().Warnings; len(list) != 0 {
			t.Errorf("%q", list)
		}
		c.stop()
	})
}
