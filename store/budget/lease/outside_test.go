package lease_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/reference"
)

// Whatever others use of a server's limit, instances that hear what the server says, and
// tell the store to what they had answers, lease nothing more than it says is left.
func TestOnlyWhatTheServerLeavesIsLeased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const amount = 60 // in a window that the test does not outlast
		now := begin
		memory := reference.New(func() time.Time { return now })
		instances := rapid.IntRange(1, 4).Draw(t, "instances")
		accounts := make([]*lease.Account, instances)
		budgets := make([]*lease.Announced, instances)
		taken := make([]int64, instances)
		var seq uint64
		for i := range accounts {
			accounts[i] = lease.NewAccount("site.test", lease.Options{Instance: string(rune('a' + i)), Seq: func() uint64 { seq++; return seq }})
			budgets[i] = accounts[i].Announced("limit", lease.Strict)
			budgets[i].Window(now, 7, amount, 20*time.Second)
		}
		fleet, others, was := int64(0), int64(0), int64(0)
		exchange := func(i int) {
			b, ok := accounts[i].Batch(now)
			if !ok {
				return
			}
			replies, err := memory.Exchange(t.Context(), []store.Batch{b})
			if err != nil {
				t.Fatal(err)
			}
			accounts[i].Receive(now, &replies[0], nil)
		}
		granted := func() (n int64) {
			for i, b := range budgets {
				n += taken[i] + b.Left(now)
			}
			return n
		}
		say := func() { // all hear what the server says, and that is said to the store
			for range 2 {
				for i, b := range budgets {
					b.Said(now, fleet+others, taken[i], true)
					now = now.Add(260 * time.Millisecond / time.Duration(instances))
					exchange(i)
				}
			}
		}
		say()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			was = max(was, granted())
			if rapid.Bool().Draw(t, "others") && fleet+others < amount {
				others++
				say()
			}
			i := rapid.IntRange(0, instances-1).Draw(t, "who")
			budgets[i].Demand(now, 1)
			now = now.Add(50 * time.Millisecond)
			was = max(was, granted())
			exchange(i)
			if n := granted(); n > was && n+others > amount {
				t.Fatalf("%d are granted after %d, where others have used %d of %d", n, was, others, amount)
			}
			if at, ok := budgets[i].When(now, 1); ok && !at.After(now) && fleet+others < amount {
				budgets[i].Take(now, 1)
				taken[i]++
				fleet++
			}
			say()
		}
	})
}
