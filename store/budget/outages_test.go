package budget

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
