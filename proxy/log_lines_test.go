package proxy

import (
	"fmt"
	"testing"
	"time"
)

// mostLines is the number of lines of one kind that are remembered.
const mostLines = 1000

// TestTheLinesOfOneKindLeaveThoseOfOthers checks that lines about a thousand hosts do not
// silence lines of other kinds.
func TestTheLinesOfOneKindLeaveThoseOfOthers(t *testing.T) {
	all, now := newInterception(nil, nil, nil), time.Now()
	for i := range mostLines {
		all.unreadLines.Due(fmt.Sprint(i), now)
	}
	if all.unreadLines.Due("more", now) || !all.refusals.distrustLines.Due("more", now) || !all.constrainedLines.Due("more", now) || !all.refusals.refusedLines.Due("more", now) {
		t.Error("one kind takes the place of another")
	}
	// A short silence must not end a long one.
	now = now.Add(2 * distrustSilence)
	for i := range 2 * mostLines {
		all.refusals.distrustLines.Due(fmt.Sprint(i), now)
	}
	if all.unreadLines.Due("1", now) {
		t.Error("a line that may not be written again is")
	}
}
