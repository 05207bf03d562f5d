package sitelog

import (
	"sync"
	"time"
)

// maxLines bounds how many lines a LineLimit remembers.
const maxLines = 1000

// LineLimit limits the repetition of log lines of one kind. It is safe for concurrent use.
type LineLimit struct {
	Every time.Duration // minimum time between two lines about the same key

	mu   sync.Mutex
	last map[string]time.Time // :: key → time of the last line
	full time.Time            // until then no remembered line can be forgotten
}

// Due tells whether a line about key may be written now: the last is at least Every old. It
// returns false while 1,000 other keys have younger lines.
func (l *LineLimit) Due(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.last[key]; ok && now.Sub(at) < l.Every {
		return false
	}
	if len(l.last) >= maxLines && !l.forget(now) {
		return false
	}
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	l.last[key] = now
	return true
}

// forget removes lines that are old enough, and tells whether there is room.
func (l *LineLimit) forget(now time.Time) bool {
	if now.Before(l.full) {
		return false
	}
	oldest := now
	for key, at := range l.last {
		if now.Sub(at) >= l.Every {
			delete(l.last, key)
		} else if at.Before(oldest) {
			oldest = at
		}
	}
	l.full = oldest.Add(l.Every)
	return len(l.last) < maxLines
}
