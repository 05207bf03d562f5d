package ledger

import (
	"slices"

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

// idleTime returns the time in which no request was waiting, where one could have gone at a time and
// went at another. Requests that were refused may wait for a second.
func idleTime(could, went int64) int64 {
	if went-could < leastIdle {
		return 0
	}
	return went - could
}
