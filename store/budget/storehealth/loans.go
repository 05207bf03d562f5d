package storehealth

import (
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// loans follows what was taken of limits while the store was away, as far as the log does
// not have it.
type loans struct {
	measure func(outage string, units int64)
	log     *logrus.Logger

	mu     sync.Mutex
	logged time.Time
	site   string     // of the first loan since, "" if there is none
	loan   lease.Loan // all loans of that limit together
	others int        // loans of other limits and sites
}

// Lent notes the loans of a site's limits, and how long the store has been away. The log
// has them once the store is back, and otherwise each minute.
func (l *loans) Lent(site string, loans []lease.Loan, away time.Duration, back bool) {
	l.mu.Lock()
	for _, one := range loans {
		one.Away = max(one.Away, away)
		l.measure(one.Outage.String(), one.N)
		switch {
		case l.site == site && l.loan.Key == one.Key:
			one.N += l.loan.N
			l.loan = one
		case l.site == "":
			l.site, l.loan = site, one
		default:
			l.others++
		}
	}
	line := back && l.site != "" && time.Since(l.logged) >= lineEvery
	l.mu.Unlock()
	if line {
		l.report()
	}
}

// report writes the loans to the log that it does not have.
func (l *loans) report() {
	l.mu.Lock()
	site, loan, others := l.site, l.loan, l.others
	l.site, l.loan, l.others = "", lease.Loan{}, 0
	if site != "" {
		l.logged = time.Now()
	}
	l.mu.Unlock()
	if site == "" {
		return
	}
	name, _, _ := strings.Cut(loan.Key, store.Separator)
	name, _, _ = strings.Cut(name, " by ") // whose it is, and for what
	more := ""
	if others > 0 {
		more = ", and some of other limits or sites"
	}
	l.log.Warnf("lent %d of %d (%s at %s) while the store was away for %v, by outage: %s%s",
		loan.N, loan.Amount, strings.TrimSpace(name), site, loan.Away.Round(time.Millisecond), loan.Outage, more)
}
