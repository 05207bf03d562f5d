package budget

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/membership"
	"github.com/abide-proxy/abide/store/reference"
)

// Each outage is told with its length, also one that comes soon after another.
func TestASecondOutageWithinAMinuteIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Share)
		elapse(5 * time.Second)
		for range 2 {
			s.Fails.Store(true)
			elapse(10 * time.Second)
			s.Fails.Store(false)
			elapse(10 * time.Second)
		}
		c.stop()
		if away, back := strings.Count(c.logged(), "the store does not answer, so limits"), regexp.MustCompile(`answers again, after \d+\.\d+s`).FindAllString(c.logged(), -1); away != 2 || len(back) != 2 {
			t.Errorf("%d and %q: %s", away, back, c.logged())
		}
		if store := c.keeper.Status(); store.Outages != 2 || c.outages != 2 {
			t.Errorf("%d outages, and %d are counted", store.Outages, c.outages)
		}
	})
}

// Of a store that comes and goes each few seconds for long the log has few lines, and all
// outages are in them.
func TestAStoreThatComesAndGoesHasFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Share)
		const minutes = 30
		for range minutes * 10 {
			s.Fails.Store(true)
			elapse(3 * time.Second)
			s.Fails.Store(false)
			elapse(3 * time.Second)
		}
		c.stop()
		all := strings.Count(c.logged(), "the store does not answer")
		for _, one := range regexp.MustCompile(`the store was away (\d+) more time`).FindAllStringSubmatch(c.logged(), -1) {
			n, _ := strconv.Atoi(one[1])
			all += n
		}
		if n := int(c.keeper.Status().Outages); all != n || n < minutes*9 {
			t.Errorf("%d of %d outages are told", all, n)
		}
		if lines := strings.Count(c.logged(), "\n"); lines > 4*2+minutes*5+2 {
			t.Errorf("there are %d lines for %d minutes", lines, minutes)
		}
	})
}

// What the store has lost is counted, shown until it has settled, and told of in few lines.
func TestWhatTheStoreHasLostIsCountedAndShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t, &reference.Unreliable{Store: reference.New(nil)}, true, "one", perMinute, lease.Share)
		elapse(10 * time.Second)
		if loss := c.keeper.Status().Loss; loss != nil {
			t.Errorf("%+v", loss)
		}
		began := time.Now()
		for range 50 {
			c.keeper.receiveNews(t.Context(), store.News{Site: "site.test", Lost: true}, membership.Events{})
		}
		if loss := c.keeper.Status().Loss; loss.Sites != 50 || loss.All != 0 || loss.Site != "site.test" || !loss.At.Equal(began) || !loss.Until.Equal(began.Add(store.RecoveryTime)) || c.losses["site"] != 50 {
			t.Errorf("%+v, %v", loss, c.losses)
		}
		elapse(2 * time.Minute)
		c.stop()
		if n := strings.Count(c.logged(), "the store has lost budgets"); n != 2 || !strings.Contains(c.logged(), "sites 49 more times") {
			t.Errorf("%d lines: %s", n, c.logged())
		}
	})
}

// What was spent while the store was away counts from when it was spent. So limits go on at
// once when the store is back, however long it was away, and also if it is an empty one then.
func TestNoLimitStallsAfterAnOutage(t *testing.T) {
	for _, spec := range []limit.Spec{
		{As: limit.Rolling, Amount: 12, Window: time.Second},
		{As: limit.Rolling, Amount: 60, Window: 10 * time.Second},
		{As: limit.Fixed, Amount: 12, Window: time.Second},
		{As: limit.FirstUse, Amount: 12, Window: time.Second},
		{As: limit.Bucket, Amount: 1000, Window: 10 * time.Second, Burst: 50},
		{As: limit.Paced, Amount: 12, Window: time.Second},
	} {
		for _, shared := range []bool{false, true} {
			for _, lost := range []bool{false, true} {
				if shared && !spec.Shareable() {
					continue
				}
				t.Run(fmt.Sprintf("%s per %v, shared %v, lost %v", spec.As, spec.Window, shared, lost), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { stallsAfterAnOutage(t, spec, shared, lost) })
				})
			}
		}
	}
}

func stallsAfterAnOutage(t *testing.T, spec limit.Spec, shared, lost bool) {
	memory := reference.New(nil)
	s := &reference.Unreliable{Store: memory}
	c := newCounter(t, s, shared, "one", spec, lease.Share)
	var sent atomic.Int64
	var over atomic.Bool
	for range 20 {
		go func() {
			for !over.Load() {
				if ok, _ := c.take("site.test", time.Minute); ok {
					sent.Add(1)
				}
			}
		}()
	}
	within := func(d time.Duration) float64 {
		before := sent.Load()
		elapse(d)
		return float64(sent.Load() - before)
	}
	elapse(store.RecoveryTime + 2*time.Second)
	before := within(10 * time.Second)
	s.Fails.Store(true)
	away := within(100 * time.Second)
	if lost {
		memory.Lose()
	}
	s.Fails.Store(false)
	if shared { // nothing is asked for until all instances have said what they spent
		elapse(store.RecoveryTime + 2*time.Second)
	}
	if first, later := within(10*time.Second), within(10*time.Second); away < before*8 || first < before/2 || later < before*0.8 { // the first window of a shared store may begin late
		t.Errorf("%.0f in 10 s, then %.0f while the store is away for 100 s, then %.0f and %.0f in 10 s", before, away, first, later)
	}
	over.Store(true)
	elapse(2 * time.Minute)
	c.stop()
}

// What does not come back until midnight is charged after an outage as if there had been none.
func TestAQuotaIsChargedWithWhatWasSpentInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, false, "one", limit.Spec{As: limit.Quota, Amount: 1000, Period: limit.Day}, lease.Share)
		elapse(time.Second)
		for i := range 300 {
			s.Fails.Store(i >= 100 && i < 280)
			if ok, _ := c.take("site.test", time.Second); !ok {
				t.Fatal("it does not go")
			}
			elapse(500 * time.Millisecond)
		}
		elapse(5 * time.Second)
		left := int64(-1)
		c.gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
			if at.Meter != nil {
				left = at.Meter.Left(now)
			}
		})
		if left != 700 {
			t.Errorf("%d are left of 1000 when 300 are used", left)
		}
		c.stop()
	})
}
