package ledger

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	mostEpisodes = 32          // that are remembered
	leastIdle    = 20 * second // shorter times without a request count as busy
)

// episode is a row of refusals, after which nothing is left of a limit.
type episode struct {
	recovery int64   // from the first refusal to the next success
	empty    int64   // when the last refused request was sent
	resumed  int64   // when the first request was sent that was accepted after that
	total    float64 // requests accepted before
	idle     int64   // time before in which no request was waiting
}

// episodes are remembered while they tell of a limit: each recovery is shorter than the one before. The
// first is the time at which requests began, when all was left.
type episodes []episode

// sinceBegin returns the episodes of requests that begin at a time, of which none was refused.
func sinceBegin(v int64, total float64, idle int64) episodes {
	return episodes{{recovery: limit.FarFuture, empty: v, resumed: v, total: total, idle: idle}}
}

// last returns the last episode.
func (e episodes) last() *episode { return &e[len(e)-1] }

// add notes an episode. Those before with a shorter recovery say nothing any more.
func (e episodes) add(next episode) episodes {
	for len(e) > 1 && e.last().recovery <= next.recovery {
		e = e[:len(e)-1]
	}
	if len(e) == mostEpisodes {
		e = slices.Delete(e, 1, 2)
	}
	return append(e, next)
}

// like returns the last episode whose recovery was about as long, or the beginning. A limit that
// recovers more slowly was not empty at the others, so what it has accepted is counted since then.
func (e episodes) like(recovery int64) *episode {
	for i := len(e) - 1; i > 0; i-- {
		if e[i].recovery >= recovery*2/3 {
			return &e[i]
		}
	}
	return &e[0]
}

// History counts the requests that a server has accepted before it refused for the first time.
type History struct {
	Accepted int64
	Lasted   time.Duration // since the first of them
	Starts   Starts
}

// Start is a time from which requests came after a pause, and how many were accepted before.
type Start struct {
	At     time.Time
	Before int64
}

// Starts are the first request and those that came after a pause, without those that were followed by fewer requests in
// relation to the time than the start before. A limit that refuses at last may have counted from any of them.
type Starts []Start

const (
	leastBreak = time.Second // without a request
	mostStarts = 8
)

// Add notes a request if there was none before, or the latest was sent long ago.
func (s Starts) Add(next Start, latest time.Time) Starts {
	if len(s) > 0 && next.At.Sub(latest) < leastBreak {
		return s
	}
	for len(s) > 1 && s[len(s)-2].rate(s[len(s)-1]) >= s[len(s)-1].rate(next) {
		s = s[:len(s)-1]
	}
	if len(s) == mostStarts {
		s = slices.Delete(s, 1, 2)
	}
	return append(s, next)
}

// rate is that of the requests from one start to another.
func (s Start) rate(next Start) float64 {
	return float64(next.Before-s.Before) / max(next.At.Sub(s.At).Seconds(), 1e-3)
}

// choose counts only the requests since a later start if their rate until v, when requests are accepted again, is more
// than 1.5 times that of all. The limit did not need the pauses before that start.
func (p *HiddenRate) choose(v int64) {
	s := &p.search
	if len(s.starts) == 0 {
		return
	}
	all, first := s.full, s.empty[0]
	for _, start := range s.starts {
		before, at := float64(start.Before), p.clock.On(start.At)
		if n := all - before; at < v && 2*n*secondsOf(v-s.empty[0].empty) > 3*s.full*secondsOf(v-at) {
			s.full, s.empty[0].empty, s.empty[0].resumed, s.empty[0].total = n, at, at, first.total+before
		}
	}
	s.starts = nil
}

// idleTime returns the time in which no request was waiting, where one could have gone at a time and
// went at another. Requests that were refused may wait for a second.
func idleTime(could, went int64) int64 {
	if went-could < leastIdle {
		return 0
	}
	return went - could
}
