package proxy

import (
	"fmt"
	"sync"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Losses are what a store has lost of budgets since the process began, as far as it was
// told. The zero value is nothing.
type Losses struct {
	All   uint64    // times that it may have lost all
	Sites uint64    // times that it has lost budgets of one site
	Last  time.Time // when the last of them was noticed
	Site  string    // of which it was; "": of all
	// Until is when nothing more is held back for them. What was lost is granted again
	// then.
	Until time.Time
}

// losses are those, and what the log was told of them.
type losses struct {
	measure func(what string) // nil: nobody counts

	mu sync.Mutex
	Losses
	told   time.Time
	untold int // losses of sites of which the log was not told
}

func (l *losses) now() Losses {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Losses
}

// add notes a loss. It answers whether the log is to be told, and how many it was not told
// of before.
func (l *losses) add(now time.Time, site string) (tell bool, others int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Last, l.Site, l.Until = now, site, now.Add(store.Settling)
	if site == "" {
		l.All++
		return true, 0
	}
	l.Sites++
	if !l.told.IsZero() && now.Sub(l.told) < noticeEvery {
		l.untold++
		return false, 0
	}
	others, l.told, l.untold = l.untold, now, 0
	return true, others
}

// settles notes until when nothing is granted of budgets of a site, as an answer says.
func (l *losses) settles(now time.Time, site string, answers []store.Answer) {
	for i := range answers {
		wait := answers[i].Settles
		if wait <= 0 {
			continue
		}
		l.mu.Lock()
		if !l.Until.After(now) { // a loss of which nobody was told
			l.Last, l.Site = now, site
		}
		if until := now.Add(wait); until.After(l.Until) {
			l.Until = until
		}
		l.mu.Unlock()
	}
}

// rest is of how many losses the log was not told, once.
func (l *losses) rest() (n int, site string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, site = l.untold, l.Site
	l.untold = 0
	return n, site
}

// lostAll notes that the store may have lost everything. Of nothing more is granted until
// everybody had the time to say what he holds.
func (d *desk) lostAll(now time.Time) {
	d.losses.add(now, "")
	if d.losses.measure != nil {
		d.losses.measure("all")
	}
}

// lostSite notes that the store has lost budgets of a site.
func (d *desk) lostSite(now time.Time, site string) {
	tell, others := d.losses.add(now, site)
	if d.losses.measure != nil {
		d.losses.measure("site")
	}
	if !tell {
		return
	}
	more := ""
	if others > 0 {
		more = fmt.Sprintf(", and %d times of other sites before", others)
	}
	d.log.Warnf("the store has lost budgets of %s (flushed, evicted, removed or overwritten)%s: what is held is said again, and nothing of them is granted for %v", site, more, store.Settling)
}

// tellLosses tells the log of how many losses it was not told.
func (d *desk) tellLosses() {
	if n, site := d.losses.rest(); n > 0 {
		d.log.Warnf("the store has lost budgets of sites %d more times, of %s last", n, site)
	}
}
