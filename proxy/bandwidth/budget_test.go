package bandwidth

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/upstream"
)

var _ upstream.ByteLimiter = (*SiteBudget)(nil)

// bed has the budgets of sites that are all under the same limits.
type bed struct {
	*Budgets
	gate *queue.Gate
	sum  *metrics.Metrics
}

// newBed keeps limits of bytes with these specs at every site.
func newBed(every time.Duration, specs ...limit.Spec) *bed {
	rules := Rules{Enforce: true, Stall: time.Hour}
	for i := range specs {
		rest, trickle := Split(queue.Limit{Name: fmt.Sprint("bytes ", i), Title: "bytes", Of: queue.Bytes, N: 1, Spec: &specs[i]})
		rules.Limits, rules.Trickle = append(rules.Limits, rest), append(rules.Trickle, trickle)
	}
	b := &bed{gate: queue.NewGate(queue.Bounds{}, nil), sum: metrics.New(1000)}
	b.Budgets = New(Options{
		Gate: b.gate, Rules: func(Owner) Rules { return rules },
		Closed: func(Owner, string) {}, Cut: func() {}, TrickleEvery: every,
	})
	return b
}

// leftOf returns what is left of the limits of a budget, or of the parts of them that trickle.
func leftOf(b *SiteBudget, trickles bool) int64 {
	left := int64(-1)
	b.all.deps.Gate.VisitSite(b.owner.Site, func(now time.Time, at queue.ResourceInfo) {
		if at.Spec == nil || strings.HasSuffix(at.At.Limit, TrickleSuffix) != trickles {
			return
		}
		if n := at.Meter.Left(now); left < 0 || n < left {
			left = n
		}
	})
	return left
}

// take acquires the budget of a tunnel to a site.
func (b *bed) take(site, client string) *SiteBudget {
	to := policy.Target{Scheme: "https", Host: site, Port: 443}
	return b.Acquire(Owner{Site: site, Target: to, Client: client, Tunnel: true}, b.sum.Site(site))
}

// unused makes so many budgets that nobody uses any more.
func (b *bed) unused(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		siteBudget := b.take(fmt.Sprintf("h%d.test", i), fmt.Sprint("c", i%10))
		must(t, siteBudget, 1000)
		b.Release(siteBudget)
	}
}

// must takes credit for up to n bytes.
func must(t *testing.T, b *SiteBudget, n int) int {
	t.Helper()
	got, err := b.Credit(nil, new(time.Time), n, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// bucket is a limit of some bytes in a day.
func bucket(amount int64) limit.Spec {
	return limit.Spec{As: limit.Bucket, Amount: amount, Window: 24 * time.Hour, Burst: amount}
}

func TestBudgetsThatNobodyUsesAreForgotten(t *testing.T) {
	b := newBed(time.Second, limit.Spec{As: limit.Fixed, Amount: 1_000_000, Window: time.Minute})
	b.unused(t, 2_000)
	kept := b.take("kept.test", "")
	if n := b.Len(); n != 2_001 {
		t.Errorf("there are %d", n)
	}
	b.Tidy(time.Minute)
	if n := b.Len(); n != 2_001 {
		t.Errorf("%d are left that were used a moment ago", n)
	}
	b.TidyAll()
	if n := b.Len(); n != 1 {
		t.Errorf("%d are left", n)
	}
	if got := must(t, kept, 500); got != 500 {
		t.Errorf("a budget that is in use gave %d", got)
	}
}

// Strangers choose hosts and paths, so there are not more budgets than are in use.
func TestBudgetsAreBounded(t *testing.T) {
	b := newBed(time.Second, limit.Spec{As: limit.Fixed, Amount: 1_000_000, Window: time.Minute})
	b.unused(t, maxBudgets)
	b.mu.Lock()
	for _, one := range b.known {
		one.used.Store(int64(time.Since(b.began) - 4*time.Second))
	}
	b.mu.Unlock()
	b.take("one.test", "")
	if n := b.Len(); n != 1 {
		t.Errorf("there are %d", n)
	}
}

// A budget that was closed, or whose gate stops, has its callers give up and not ask for ever.
func TestABudgetThatIsOverGivesNothing(t *testing.T) {
	const every = 5 * time.Second
	b := newBed(every, bucket(10_000))
	closed := b.take("a.test", "")
	b.Release(closed)
	b.TidyAll()
	began := time.Now()
	if n, err := closed.Credit(nil, new(time.Time), 10, nil); !errors.Is(err, queue.ErrGone) {
		t.Errorf("%d, %v", n, err)
	}
	siteBudget := b.take("a.test", "")
	if n := must(t, siteBudget, 1<<20); n != 9_900 {
		t.Error(n)
	}
	waits := make(chan error)
	go func() {
		_, err := siteBudget.Credit(nil, new(time.Time), 100, nil)
		waits <- err
	}()
	b.gate.Close()
	var refusal *queue.Refusal
	if err := <-waits; !errors.As(err, &refusal) || refusal.Reason != queue.Draining || time.Since(began) > every {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestAConnectionThatEndsWhileItPausesGivesUp(t *testing.T) {
	b := newBed(5*time.Second, bucket(10_000)).take("a.test", "")
	must(t, b, 1<<20)
	done, waits := make(chan struct{}), make(chan error)
	go func() {
		_, err := b.Credit(done, new(time.Time), 100, nil)
		waits <- err
	}()
	close(done)
	if err := <-waits; !errors.Is(err, queue.ErrGone) {
		t.Error(err)
	}
}

// What trickled and was not used goes back to where it came from, so that both together
// never give more than the limit.
func TestWhatTrickledIsGivenBackToTheTrickle(t *testing.T) {
	b := newBed(time.Millisecond, bucket(100_000)).take("a.test", "")
	all := must(t, b, 1<<20)
	all += must(t, b, 1000)
	if all != 99_000+maxTrickle {
		t.Fatalf("%d in all", all)
	}
	b.Refund(maxTrickle)
	if left := leftOf(b, true); left < 999 { // a bucket may round
		t.Errorf("%d are left to trickle", left)
	}
	if left := leftOf(b, false); left != 0 {
		t.Errorf("%d came back where they did not come from", left)
	}
	b.Refund(500)
	if left := leftOf(b, false); left != 500 {
		t.Errorf("%d came back", left)
	}
}

// The bytes of a bucket are let come together for a moment: taking each byte as it comes
// would be more work than it is worth.
func TestABucketIsNotEmptiedByteByByte(t *testing.T) {
	perMinute := func(as limit.As, amount, burst int64) limit.Spec {
		return limit.Spec{As: as, Amount: amount, Window: time.Minute, Burst: burst}
	}
	b := newBed(5*time.Second, perMinute(limit.Bucket, 100_000_000, 100_000), perMinute(limit.Fixed, 1_000_000_000, 0)).take("a.test", "")
	must(t, b, 1<<20)
	for range 10 {
		if n := must(t, b, 1<<20); n < 3_300 {
			t.Errorf("%d bytes", n)
		}
		if n := must(t, b, 10); n != 10 {
			t.Errorf("%d bytes of 10", n)
		}
	}
}
