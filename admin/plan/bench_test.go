package plan

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkAMillionRequests is what a plan for a million requests takes, with the GOGC that
// "abide plan" sets:
//
//	GOGC=800 GOMAXPROCS=1 go test ./plan -run '^$' -bench . -benchtime 1x
func BenchmarkAMillionRequests(b *testing.B) {
	for _, clients := range []int{20, 1000} {
		for _, limit := range []string{"", "900 per 15m by token"} {
			b.Run(fmt.Sprintf("%d clients, site limit %q", clients, limit), func(b *testing.B) {
				s := scenario(b, crawlOf(1_000_000, clients), limit)
				for b.Loop() {
					r := run(b, fourTokens, s)
					if !r.Finished || r.End.Sub(s.Start) < 69*time.Hour {
						b.Fatalf("it ends at %v", r.End)
					}
				}
			})
		}
	}
}
