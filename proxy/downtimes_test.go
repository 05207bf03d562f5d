package proxy

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/store"
)

// Each outage is told with its length, also one that comes soon after another.
func TestASecondOutageWithinAMinuteIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Share)
		text, begun := c.desk.log.Out.(*syncBuffer), 0
		c.desk.health.mu.Lock()
		c.desk.health.measure = func() { begun++ }
		c.desk.health.mu.Unlock()
		elapse(5 * time.Second)
		for range 2 {
			s.fails.Store(true)
			elapse(10 * time.Second)
			s.fails.Store(false)
			elapse(10 * time.Second)
		}
		c.stop()
		if away, back := strings.Count(text.String(), "the store does not answer, so limits"), regexp.MustCompile(`answers again, after \d+\.\d+s`).FindAllString(text.String(), -1); away != 2 || len(back) != 2 {
			t.Errorf("%d and %q: %s", away, back, text)
		}
		if is := c.desk.status(); is.Outages != 2 || begun != 2 {
			t.Errorf("%d outages, and %d are counted", is.Outages, begun)
		}
	})
}

// Of a store that comes and goes each few seconds for long the log has few lines, and all
// outages are in them.
func TestAStoreThatComesAndGoesHasFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Share)
		text := c.desk.log.Out.(*syncBuffer)
		const minutes = 30
		for range minutes * 10 {
			s.fails.Store(true)
			elapse(3 * time.Second)
			s.fails.Store(false)
			elapse(3 * time.Second)
		}
		c.stop()
		all := strings.Count(text.String(), "the store does not answer")
		for _, one := range regexp.MustCompile(`the store was away (\d+) more time`).FindAllStringSubmatch(text.String(), -1) {
			n, _ := strconv.Atoi(one[1])
			all += n
		}
		if n := int(c.desk.status().Outages); all != n || n < minutes*9 {
			t.Errorf("%d of %d outages are told", all, n)
		}
		if lines := strings.Count(text.String(), "\n"); lines > outageLines*2+minutes*5+2 {
			t.Errorf("there are %d lines for %d minutes", lines, minutes)
		}
	})
}

// What the store has lost is counted, shown until it has settled, and told of in few lines.
func TestWhatTheStoreHasLostIsCountedAndShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t, &trouble{Store: store.NewMemory(nil)}, true, "one", perMinute, lease.Share)
		text, counted := c.desk.log.Out.(*syncBuffer), map[string]int{}
		c.desk.losses.measure = func(what string) { counted[what]++ }
		elapse(10 * time.Second)
		if is := c.desk.status().Losses; is != (Losses{}) {
			t.Errorf("%+v", is)
		}
		began := time.Now()
		for range 50 {
			c.desk.hear(t.Context(), store.News{Site: "site.test", Lost: true})
		}
		if is := c.desk.status().Losses; is.Sites != 50 || is.All != 0 || is.Site != "site.test" || !is.Last.Equal(began) || !is.Until.Equal(began.Add(store.Settling)) || counted["site"] != 50 {
			t.Errorf("%+v, %v", is, counted)
		}
		elapse(2 * time.Minute)
		c.stop()
		if n := strings.Count(text.String(), "the store has lost budgets"); n != 2 || !strings.Contains(text.String(), "sites 49 more times") {
			t.Errorf("%d lines: %s", n, text)
		}
	})
}
