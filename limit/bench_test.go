package limit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// One request through each kind, as early as it may go.
func BenchmarkWhenAndTake(b *testing.B) {
	for _, s := range all {
		s.Amount = max(s.Amount, 1) * 180
		b.Run(string(s.As), func(b *testing.B) {
			m := build(b, s)
			now := began
			b.ReportAllocs()
			for b.Loop() {
				at, _ := m.When(now, 1)
				if at.After(now) {
					now = at
				}
				m.Take(now, 1)
				m.Done(now, now, 1, limit.Success)
			}
		})
	}
}

// The cost of rolling does not grow with what it counts.
func BenchmarkRolling(b *testing.B) {
	for _, amount := range []int64{10, 1_000, 100_000, 10_000_000} {
		b.Run(fmt.Sprint(amount), func(b *testing.B) {
			m := build(b, limit.Spec{As: limit.Rolling, Amount: amount, Window: 15 * time.Minute})
			now, step := began, 15*time.Minute/time.Duration(amount)
			b.ReportAllocs()
			for b.Loop() {
				at, _ := m.When(now, 1)
				if at.After(now) {
					now = at
				}
				m.Take(now, 1)
				now = now.Add(step)
			}
		})
	}
}

func BenchmarkState(b *testing.B) {
	m := build(b, limit.Spec{As: limit.Rolling, Amount: 900, Window: 15 * time.Minute})
	now := began
	for range 900 {
		m.Take(now, 1)
		now = now.Add(time.Second)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Restore(now, m.State()); err != nil {
			b.Fatal(err)
		}
	}
}
