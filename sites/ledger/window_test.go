package ledger

import "testing"

// TestTheUsualLengthThatAnnouncedEndsAllowIsShown: a server of windows of 5 s that rounds the time until their end up to
// 6 s has ends 7 s apart for a client that waits until each is certainly over.
func TestTheUsualLengthThatAnnouncedEndsAllowIsShown(t *testing.T) {
	for _, c := range []struct{ longest, period, slop, want int64 }{
		{7 * second, 7 * second, second, 5 * second},
		{7 * second, 7 * second, 0, 7 * second},
		{61 * second, 61 * second, second, 60 * second},
		{0, 7 * second, second, 7 * second},
		{9 * second, 9 * second, second, 9 * second},
		{6 * second, 6 * second, second, 5 * second}, // unless it is known better
	} {
		w := window{longest: c.longest, period: c.period, slop: c.slop}
		if got := w.shown(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if w.close = true; w.shown() != c.period {
			t.Errorf("%+v, where windows have followed each other at once: %v", c, w.shown())
		}
	}
}
