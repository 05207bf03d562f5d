package plan

import (
	"time"

	"github.com/abide-proxy/abide/proxy/problem"
)

// tally counts what happens in a simulation.
type tally struct {
	series   series
	answered int
	last     time.Time // when the last request was answered
	waited   time.Duration
	longest  time.Duration // that a request has waited

	latency time.Duration // that sites took to answer, in all
	thought time.Duration // between an answer and the next request, in all
	blocked map[blame]time.Duration

	passedOn int // refusals of sites that clients got to see
	cut      int // bodies that a limit of bytes has cut
	refusals map[refusalKey]int
	nevers   map[string]int // requests that abide refused for good, by the reason
}

// blame is what has kept requests, at which site.
type blame struct{ site, limit string }

// refusalKey is what abide has refused requests for.
type refusalKey struct{ reason, limit string }

func newTally(start time.Time) tally {
	return tally{series: series{start: start}, last: start, blocked: map[blame]time.Duration{}, refusals: map[refusalKey]int{}, nevers: map[string]int{}}
}

// answer counts a request that is answered, after it has waited for so long.
func (t *tally) answer(now time.Time, waited time.Duration) {
	t.answered++
	t.last = now
	t.waited += waited
	t.longest = max(t.longest, waited)
	t.series.add(now)
}

// block counts time that a request had to wait.
func (t *tally) block(site, limit string, d time.Duration) {
	if d > 0 {
		t.blocked[blame{site, limit}] += d
	}
}

// mostReasons bounds the reasons of refusals that are told apart.
const mostReasons = 1000

// refuse counts a refusal of abide that a client repeats.
func (t *tally) refuse(refused *problem.Problem) {
	key := refusalKey{refused.Title, refused.Limit}
	if _, known := t.refusals[key]; !known && len(t.refusals) >= mostReasons {
		key.limit = ""
	}
	t.refusals[key]++
}

// never counts a request that abide refuses for good.
func (t *tally) never(site string, err error) {
	text := site + ": " + err.Error()
	if _, known := t.nevers[text]; !known && len(t.nevers) >= mostReasons {
		text = "others"
	}
	t.nevers[text]++
}
