package proxy

import (
	"fmt"
	"testing"
	"time"
)

func TestALineIsWrittenOnceAndTheMemoryOfItIsBounded(t *testing.T) {
	l := lineLimit{every: time.Minute}
	now := time.Now()
	if !l.due("a", now) || l.due("a", now.Add(59*time.Second)) || !l.due("b", now) {
		t.Error("it is due at the wrong times")
	}
	if !l.due("a", now.Add(time.Minute)) {
		t.Error("it is not due after a minute")
	}
	for i := range 5 * maxLines {
		l.due(fmt.Sprint(i), now)
	}
	if len(l.last) > maxLines || l.due("one more", now) {
		t.Errorf("%d are remembered", len(l.last))
	}
	if !l.due("one more", now.Add(2*time.Minute)) || len(l.last) > 2 {
		t.Errorf("afterwards %d are remembered", len(l.last))
	}
}

// TestAFullLineLimitIsSearchedOnlyWhenALineMayLeave: a thousand hosts must not make each
// further CONNECT look at a thousand lines.
func TestAFullLineLimitIsSearchedOnlyWhenALineMayLeave(t *testing.T) {
	l := lineLimit{every: time.Hour}
	now := time.Now()
	for i := range maxLines {
		l.due(fmt.Sprint(i), now.Add(time.Duration(i)*time.Second))
	}
	if now = now.Add(maxLines * time.Second); l.due("more", now) {
		t.Error("there is room")
	}
	if want := now.Add(time.Hour - maxLines*time.Second); !l.full.Equal(want) {
		t.Errorf("it is full until %v, the first line leaves at %v", l.full, want)
	}
	room := l.full
	if l.due("more", room.Add(-1)) || !l.due("more", room) || l.due("yet more", room) {
		t.Error("the room of one line is not that of one")
	}
}

// TestTheLinesOfOneKindLeaveThoseOfOthers: a thousand hosts that pass unread silenced
// failures of TLS for a day.
func TestTheLinesOfOneKindLeaveThoseOfOthers(t *testing.T) {
	all, now := newLines(), time.Now()
	for i := range maxLines {
		all.unread.due(fmt.Sprint(i), now)
	}
	if all.unread.due("more", now) || !all.tls.due("more", now) || !all.vouch.due("more", now) || !all.refused.due("more", now) {
		t.Error("one kind takes the place of another")
	}
	// A short silence must not end a long one.
	now = now.Add(2 * tlsSilence)
	for i := range 2 * maxLines {
		all.tls.due(fmt.Sprint(i), now)
	}
	if all.unread.due("1", now) {
		t.Error("a line that may not be written again is")
	}
}
