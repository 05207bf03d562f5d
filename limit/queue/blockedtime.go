package queue

import "time"

// blockedTime is the time for which one limit has blocked requests, in all: three requests
// that waited for two seconds are six seconds.
type blockedTime struct {
	name    string
	seconds float64
	busy    float64   // seconds for which it blocked any request
	count   int       // how many requests it blocks
	since   time.Time // when seconds was brought up to date

	observed float64 // seconds for which it would have blocked requests that were only observed
}

// change adds the time until now, and then changes the number of requests that the limit
// blocks.
func (t *blockedTime) change(now time.Time, by int) {
	t.seconds, t.busy, t.since = t.upTo(now), t.busyUpTo(now), now
	t.count += by
}

// upTo is the blocked time until now, in seconds.
func (t *blockedTime) upTo(now time.Time) float64 {
	if t.count == 0 {
		return t.seconds
	}
	return t.seconds + float64(t.count)*max(now.Sub(t.since), 0).Seconds()
}

// busyUpTo is the time until now for which the limit blocked any request, in seconds.
func (t *blockedTime) busyUpTo(now time.Time) float64 {
	if t.count == 0 {
		return t.busy
	}
	return t.busy + max(now.Sub(t.since), 0).Seconds()
}

// The names of blocked time that no configured limit causes.
const (
	cooldownLimit = "cooldown"
	retryLimit    = "retry"
)

// blockedTimes are the blocked times of a site by the title of the limit. The keys of a
// limit share its blocked time.
type blockedTimes map[string]*blockedTime

func (b *blockedTimes) of(name string) *blockedTime {
	t := (*b)[name]
	if t == nil {
		t = &blockedTime{name: name}
		if *b == nil {
			*b = blockedTimes{}
		}
		(*b)[name] = t
	}
	return t
}

// blockedSince says what blocks a group from a time on.
type blockedSince struct {
	time *blockedTime
	from time.Time
}

// mostBlockedSince bounds the history of a group: what blocked it long ago does not
// matter.
const mostBlockedSince = 32
