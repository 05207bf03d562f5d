package ledger

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

func BenchmarkLedger(b *testing.B) {
	for name, flying := range map[string]int{"one": 1, "hundred": 100} {
		b.Run(name, func(b *testing.B) {
			l := New(Options{})
			sent := make([]time.Time, flying)
			now := epoch
			reset := now.Add(24 * time.Hour)
			left := 1e9
			said := learn.Limit{
				Limit: some(1e9), Reset: reset, Resolution: time.Second, Window: 24 * time.Hour,
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				i := n % flying
				if n >= flying {
					left--
					said.Remaining = some(left)
					l.Update(now, Answer{Sent: sent[i], Units: 1, Limit: said})
					l.Done(now, sent[i], 1, limit.Success)
				}
				l.When(now, 1)
				l.Take(now, 1)
				sent[i] = now
				n++
			}
		})
	}
}
