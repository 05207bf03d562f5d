package proxy

import (
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/lease"
)

// lendingLog is how often the log is told at most of what was taken while the store was
// away.
const lendingLog = time.Minute

// lending is what was taken of limits while the store was away, as far as the log was
// not told of it yet.
type lending struct {
	measure func(outage string, units int64) // nil: nobody counts

	mu     sync.Mutex
	told   time.Time
	site   string // of the largest one
	loan   lease.Loan
	others int // loans of other limits and sites
}

// lent counts what was taken of the limits of a site while the store was away. The log
// is told when the store is there again, and otherwise each minute.
func (d *desk) lent(site string, loans []lease.Loan, err error) {
	away := d.health.failing()
	l := &d.lending
	l.mu.Lock()
	for _, one := range loans {
		one.Away = max(one.Away, away)
		if l.measure != nil {
			l.measure(one.Outage.String(), one.N)
		}
		switch same := l.site == site && l.loan.Key == one.Key; {
		case same:
			one.N += l.loan.N
			l.loan = one
		case l.site == "":
			l.site, l.loan = site, one
		default:
			l.others++
		}
	}
	tell := err == nil && l.site != "" && time.Since(l.told) >= lendingLog
	l.mu.Unlock()
	if tell {
		d.tellLent()
	}
}

// tellLent tells the log what was taken while the store was away.
func (d *desk) tellLent() {
	l := &d.lending
	l.mu.Lock()
	site, loan, others := l.site, l.loan, l.others
	l.site, l.loan, l.others = "", lease.Loan{}, 0
	if site != "" {
		l.told = time.Now()
	}
	l.mu.Unlock()
	if site == "" {
		return
	}
	name, _, _ := strings.Cut(loan.Key, between)
	name, _, _ = strings.Cut(name, " by ") // whose it is, and for what
	name = strings.TrimSpace(name)
	more := ""
	if others > 0 {
		more = ", and some of other limits or sites"
	}
	d.log.Warnf("lent %d of %d (%s at %s) while the store was away for %v, by outage: %s%s",
		loan.N, loan.Amount, name, site, loan.Away.Round(time.Millisecond), loan.Outage, more)
}
