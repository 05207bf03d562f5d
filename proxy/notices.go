package proxy

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/lease"
)

// noticeEvery is how often the log is told the same of the store at most.
const noticeEvery = time.Minute

// notices are when the log was told what. There are only few kinds.
type notices struct {
	mu   sync.Mutex
	told map[string]time.Time // :: kind →
}

// warn tells the log, unless it was told of that kind a moment ago.
func (n *notices) warn(log *logrus.Logger, kind, format string, args ...any) {
	n.mu.Lock()
	now := time.Now()
	last, was := n.told[kind]
	quiet := was && now.Sub(last) < noticeEvery
	if !quiet {
		if n.told == nil {
			n.told = map[string]time.Time{}
		}
		n.told[kind] = now
	}
	n.mu.Unlock()
	if !quiet {
		log.Warnf(format, args...)
	}
}

// tellOff tells the log what is wrong with the store's clock.
func (d *desk) tellOff(off lease.Off) {
	if off.Step != 0 {
		d.notices.warn(d.log, "step", "the store's clock was set by %v: a window that had not begun by it before is not used until the present one has ended", off.Step.Round(time.Millisecond))
	}
	if off.Behind > 0 {
		d.notices.warn(d.log, "behind", "the store's clock is %v behind what its limits have seen: they grant nothing of a new window until it is there", off.Behind.Round(time.Millisecond))
	}
}
