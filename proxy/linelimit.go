package proxy

import (
	"sync"
	"time"
)

// maxLines bounds how many lines a lineLimit remembers.
const maxLines = 1000

// lineLimit keeps lines of one kind from being written over and over. It is safe for
// concurrent use.
type lineLimit struct {
	every time.Duration // for which a line is not written again

	mu   sync.Mutex
	last map[string]time.Time // what a line is about → when it was written
	full time.Time            // until then none of maxLines lines is old enough to be forgotten
}

// lines are the limits of the log's lines, one for each kind: none of them takes the
// place of another kind's.
type lines struct {
	tls, unread, vouch              lineLimit
	refused, restored, trust, doubt lineLimit // of the CA's certificates, see rejections
}

func newLines() *lines {
	return &lines{
		tls: lineLimit{every: tlsSilence}, unread: lineLimit{every: unreadSilence}, vouch: lineLimit{every: vouchSilence},
		refused: lineLimit{every: rejectionSilence}, restored: lineLimit{every: refusalsKept},
		trust: lineLimit{every: rejectionSilence}, doubt: lineLimit{every: rejectionSilence},
	}
}

// due tells whether a line about key may be written now: the last one is at least
// as old as every. When the lines about 1,000 others are younger than that, it may
// not.
func (l *lineLimit) due(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.last[key]; ok && now.Sub(at) < l.every {
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

// forget lets go of lines that are old enough, if there may be any, and tells whether
// there is room.
func (l *lineLimit) forget(now time.Time) bool {
	if now.Before(l.full) {
		return false
	}
	oldest := now
	for key, at := range l.last {
		if now.Sub(at) >= l.every {
			delete(l.last, key)
		} else if at.Before(oldest) {
			oldest = at
		}
	}
	l.full = oldest.Add(l.every)
	return len(l.last) < maxLines
}
