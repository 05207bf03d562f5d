package storehealth

import (
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// lineEvery is the least time between two lines of a kind in the log.
const lineEvery = time.Minute

// losses follows what the store has lost, and which losses the log has.
type losses struct {
	measure func(what string)
	log     *logrus.Logger

	mu       sync.Mutex
	lost     status.Loss // in all
	logged   time.Time
	unlogged int // losses of sites that are not in the log
}

// now is the losses until now, nil if there were none.
func (l *losses) now(now time.Time) *status.Loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	loss := l.lost
	if loss.All+loss.Sites == 0 && !loss.Settles(now) {
		return nil
	}
	loss.At, loss.Until = loss.At.UTC(), loss.Until.UTC()
	return &loss
}

// LostAll notes that the store may have lost everything. It grants nothing more until
// every instance had the time to say what it holds.
func (l *losses) LostAll(now time.Time) {
	l.measure("all")
	l.mu.Lock()
	l.note(now, "")
	l.lost.All++
	l.mu.Unlock()
	l.log.Warnf("the store has lost what was written down, or may have: it was flushed, was started again, or is another one; what is held is said again, and nothing is asked of it for %v", store.RecoveryTime)
}

// LostSite notes that the store has lost budgets of a site.
func (l *losses) LostSite(now time.Time, site string) {
	l.measure("site")
	l.mu.Lock()
	l.note(now, site)
	l.lost.Sites++
	quiet, others := !l.logged.IsZero() && now.Sub(l.logged) < lineEvery, l.unlogged
	if quiet {
		l.unlogged++
	} else {
		l.logged, l.unlogged = now, 0
	}
	l.mu.Unlock()
	if quiet {
		return
	}
	more := ""
	if others > 0 {
		more = fmt.Sprintf(", and %d times of other sites before", others)
	}
	l.log.Warnf("the store has lost budgets of %s (flushed, evicted, removed or overwritten)%s: what is held is said again, and nothing of them is granted for %v", site, more, store.RecoveryTime)
}

// note notes when a loss was noticed, with the lock held.
func (l *losses) note(now time.Time, site string) {
	l.lost.At, l.lost.Site, l.lost.Until = now, site, now.Add(store.RecoveryTime)
}

// Settles notes until when nothing is granted of budgets of a site, as answers say.
func (l *losses) Settles(now time.Time, site string, answers []store.Answer) {
	for i := range answers {
		wait := answers[i].Recovery
		if wait <= 0 {
			continue
		}
		l.mu.Lock()
		if !l.lost.Settles(now) { // the loss itself was not noticed
			l.lost.At, l.lost.Site = now, site
		}
		if until := now.Add(wait); until.After(l.lost.Until) {
			l.lost.Until = until
		}
		l.mu.Unlock()
	}
}

// report writes to the log how many losses it does not have.
func (l *losses) report() {
	l.mu.Lock()
	n, site := l.unlogged, l.lost.Site
	l.unlogged = 0
	l.mu.Unlock()
	if n > 0 {
		l.log.Warnf("the store has lost budgets of sites %d more times, of %s last", n, site)
	}
}
