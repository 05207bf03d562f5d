package proxy

import (
	"sync"
	"time"
)

// maxLines bounds how many lines a lineLimit remembers.
const maxLines = 1000

// lineLimit keeps a line of the log from being written over and over. The zero
// value is ready, and it is safe for concurrent use.
type lineLimit struct {
	mu   sync.Mutex
	last map[string]time.Time // what a line is about → when it was written
}

// due tells whether a line about key may be written now: the last one is at least
// as old as every. When the lines about 1,000 others are younger than that, it may
// not.
func (l *lineLimit) due(key string, now time.Time, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.last[key]; ok && now.Sub(at) < every {
		return false
	}
	if len(l.last) >= maxLines {
		for one, at := range l.last {
			if now.Sub(at) >= every {
				delete(l.last, one)
			}
		}
		if len(l.last) >= maxLines {
			return false
		}
	}
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	l.last[key] = now
	return true
}
