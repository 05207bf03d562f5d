package backends

import (
	"errors"
	"testing"

	"github.com/abide-proxy/abide/proxy/upstream"
)

func TestWhatCountsAsAFailureOfTheSite(t *testing.T) {
	lost := func(kind upstream.Kind) error { return &upstream.Error{Kind: kind, Sent: true} }
	for _, c := range []struct {
		status  int
		err     error
		refused bool
		want    Health
	}{
		{status: 200, want: Well},
		{status: 404, want: Well},
		{status: 500, want: Well},
		{status: 502, want: Ill},
		{status: 503, want: Ill},
		{status: 503, refused: true, want: Well},
		{status: 504, want: Ill},
		{status: 429, refused: true, want: Well},
		{err: lost(upstream.Refused), want: Ill},
		{err: lost(upstream.TLS), want: Ill},
		{err: lost(upstream.Canceled), want: Unknown},
		{err: lost(upstream.Upload), want: Unknown},
		{err: lost(upstream.Files), want: Unknown},
		{err: lost(upstream.Hop), want: Unknown},
		{err: lost(upstream.HopLogin), want: Unknown},
		{err: lost(upstream.Forbidden), want: Unknown},
		{err: &upstream.Error{Kind: upstream.Closed, Sent: true, Stale: true}, want: Unknown},
		{err: errors.New("what"), want: Unknown},
	} {
		if got := HealthOf(c.status, c.err, c.refused); got != c.want {
			t.Errorf("%d %v: %v, not %v", c.status, c.err, got, c.want)
		}
	}
}
