package dispatch_test

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/dispatch/dispatchtest"
)

// tenPer is a configuration with a limit of ten requests.
func tenPer(window string) string {
	return "sites: [{host: site.test, learn: false, limits: [{requests: 10, per: " + window + "}]}]\n"
}

// goes returns how many of n requests go, if each waits for a second at most.
func (w rig) goes(n int) (went int) {
	for range n {
		if a := w.Get("http://site.test/", maxWait, "1s"); a.Status == http.StatusOK {
			went++
		}
	}
	return went
}

// A limit changes and changes back, by a reload or by a restart. What was spent in between counts.
func TestALimitThatChangesBackKeepsWhatWasSpentOverARestart(t *testing.T) {
	for how, end := range endings {
		for _, pause := range []time.Duration{0, 300 * time.Millisecond, 5 * time.Second} {
			for restarts := range 8 {
				t.Run(fmt.Sprintf("%s, %v, restarts %03b", how, pause, restarts), func(t *testing.T) {
					runRestarts(t, newStatePath(t), time.Hour, answerFine, func(l *restartTest) {
						w := l.begin(tenPer("1h"))
						for i, per := range []string{"2h", "1h", "3h"} {
							if went := w.goes(2); went != 2 {
								t.Errorf("before %s, %d of 2 went", per, went)
							}
							elapse(pause)
							if restarts>>i&1 == 0 {
								w.Reload(tenPer(per))
								continue
							}
							end(w)
							w = l.begin(tenPer(per))
						}
						if went := w.goes(10); went != 4 && (how == "gently" || went > 4 || went < 1) {
							t.Errorf("then %d go, not 4", went)
						}
						w.end()
					})
				})
			}
		}
	}
}

// Two processes with one state file change a limit and change it back.
func TestALimitThatChangesBackIsSpentOnceByTwoProcesses(t *testing.T) {
	for _, pause := range []time.Duration{0, 300 * time.Millisecond, 5 * time.Second} {
		for _, chain := range [][]string{{"2h"}, {"2h", "1h"}, {"2h", "1h", "2h", "3h"}} {
			t.Run(fmt.Sprintf("%v, %v", pause, chain), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					path, all := newStatePath(t), []rig{}
					for i := range 2 {
						all = append(all, rig{dispatchtest.Start(t, answerFine, tenPer("1h"), keptIn(t, path, fmt.Sprint("process ", i)))})
						elapse(2 * time.Second)
					}
					spent := 0
					for _, per := range chain {
						for i, w := range all {
							n := w.goes(1 + i%2)
							if spent += n; n != 1+i%2 && spent < 10 {
								t.Errorf("before %s, only %d of %d went", per, n, 1+i%2)
							}
						}
						elapse(pause)
						for _, w := range all {
							w.Reload(tenPer(per))
						}
					}
					for _, w := range all {
						spent += w.goes(10)
					}
					if spent != 10 {
						t.Errorf("%d of 10 went", spent)
					}
					for _, w := range all {
						w.Close()
					}
				})
			})
		}
	}
}

// chainLimit is a limit of requests in a chain of changes.
type chainLimit struct {
	amount int
	window time.Duration
	as     string
}

func (l chainLimit) String() string {
	text := fmt.Sprintf("{requests: %d, per: %v, as: %s", l.amount, l.window, l.as)
	if l.as == "bucket" {
		text += fmt.Sprintf(", burst: %d", l.burst())
	}
	return text + "}"
}

func (l chainLimit) burst() int { return max(l.amount/4, 1) }

// phase is the time for which a configuration was in force.
type phase struct {
	from   time.Time
	limits []chainLimit
}

func (p phase) yaml() string {
	return fmt.Sprintf("queue: {wait: 1h}\nsites: [{host: site.test, learn: false, limits: %v}]\n", strings.ReplaceAll(fmt.Sprint(p.limits), "} {", "}, {"))
}

// chainRun is what has arrived under a chain of configurations.
type chainRun struct {
	mu       sync.Mutex
	arrivals []time.Time
	phases   []phase
}

func (c *chainRun) serve(http.ResponseWriter, *http.Request) {
	c.mu.Lock()
	c.arrivals = append(c.arrivals, time.Now())
	c.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
}

// load sends requests until the end is called, which waits for the last.
func (c *chainRun) load(all ...rig) (end func()) {
	ctx, cancel := context.WithCancel(all[0].T.Context())
	var workers sync.WaitGroup
	for i := range 6 * len(all) {
		w := all[i%len(all)]
		workers.Go(func() {
			for ctx.Err() == nil {
				w.Do(ctx, http.MethodGet, "http://site.test/", "", maxWait, "20s")
				_ = clock.Sleep(ctx, 50*time.Millisecond)
			}
		})
	}
	return func() { cancel(); workers.Wait() }
}

// phaseAt returns the index of the phase at a time.
func (c *chainRun) phaseAt(at time.Time) int {
	i := len(c.phases) - 1
	for i > 0 && c.phases[i].from.After(at) {
		i--
	}
	return i
}

// counted counts the arrivals after a time, up to another.
func (c *chainRun) counted(after, until time.Time) (n int) {
	for _, at := range c.arrivals {
		if i := c.phaseAt(at); at.After(after) && !at.After(until) && len(c.phases[i].limits) > 0 {
			n++
		}
	}
	return n
}

// allows tells whether a limit of a phase allowed an arrival, by all that has arrived.
func (c *chainRun) allows(p phase, l chainLimit, at time.Time) bool {
	switch l.as {
	case "rolling":
		return c.counted(at.Add(-l.window), at) <= l.amount
	case "fixed":
		return c.counted(at.Truncate(l.window).Add(-1), at) <= l.amount
	case "first-use":
		return c.counted(at.Add(-l.window), at) <= 2*l.amount
	}
	most := 1
	if l.as == "bucket" {
		most = l.burst()
	}
	return !slices.ContainsFunc(c.arrivals, func(first time.Time) bool {
		passed := float64(l.amount) * at.Sub(first).Seconds() / l.window.Seconds()
		return !first.Before(p.from) && !first.After(at) && c.counted(first.Add(-1), at) > most+int(passed)+1
	})
}

// check tells what is wrong with what has arrived. Each limit of the configuration in force has to allow each arrival, by all that
// has arrived, and nothing waits for longer than the limits need, if what was taken over counts as if it had half of its age.
func (c *chainRun) check() error {
	for _, at := range c.arrivals {
		i := c.phaseAt(at)
		for _, l := range c.phases[i].limits {
			if !at.Equal(c.phases[i].from) && !c.allows(c.phases[i], l, at) { // at the time of a reload both hold
				return fmt.Errorf("%v after the begin, phase %d: one is too many under %v", at.Sub(c.phases[0].from), i, l)
			}
		}
	}
	for i, p := range c.phases[:len(c.phases)-1] {
		if slices.ContainsFunc(p.limits, func(l chainLimit) bool { return l.as != "rolling" && l.as != "fixed" }) {
			continue
		}
		free := time.Duration(0)
		for at := p.from; at.Before(c.phases[i+1].from); at = at.Add(100 * time.Millisecond) {
			if free += 100 * time.Millisecond; c.counted(at.Add(-100*time.Millisecond), at) > 0 || slices.ContainsFunc(p.limits, func(l chainLimit) bool {
				from := at.Add(-2 * l.window)
				if l.as == "fixed" {
					from = at.Add(-2 * at.Sub(at.Truncate(l.window)))
				}
				return c.counted(from, at) >= l.amount
			}) {
				free = 0
			}
			if free > 1500*time.Millisecond {
				return fmt.Errorf("%v after the begin, phase %d: nothing goes for %v under %v, which have room", at.Sub(c.phases[0].from), i, free, p.limits)
			}
		}
	}
	return nil
}

// changed returns the limits of the next phase: others, or those of before the last change.
func changed(rnd *rand.Rand, before []phase) (limits []chainLimit) {
	pick := func(words ...string) string { return words[rnd.Intn(len(words))] }
	if len(before) > 1 && rnd.Intn(3) == 0 { // back
		return before[len(before)-2].limits
	}
	for range 1 + rnd.Intn(2) {
		l := chainLimit{5 + rnd.Intn(20), []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second}[rnd.Intn(3)], "rolling"}
		if rnd.Intn(2) == 0 {
			l.as = pick("fixed", "bucket", "first-use", "paced")
		}
		if !slices.ContainsFunc(limits, func(m chainLimit) bool {
			return m.as == l.as && m.window == l.window
		}) {
			limits = append(limits, l)
		}
	}
	return limits
}

// Whatever chain of limits is in force one after the other, none of them is exceeded by what has gone under all of them, and
// nothing waits without need.
func TestChainsOfChangedLimits(t *testing.T) {
	const length = 8
	// run runs a chain of random limits. next puts the configuration of a phase in force.
	run := func(t *testing.T, seed int64, c *chainRun, start func(yaml string) func(rnd *rand.Rand, yaml string)) {
		rnd := rand.New(rand.NewSource(seed))
		next := func(*rand.Rand, string) {}
		for i := range length {
			p := phase{time.Now(), changed(rnd, c.phases)}
			if c.phases = append(c.phases, p); i == 0 {
				next = start(p.yaml())
			} else {
				next(rnd, p.yaml())
			}
			time.Sleep(time.Duration(1+rnd.Intn(12_000)) * time.Millisecond)
		}
		c.phases = append(c.phases, phase{time.Now(), nil})
		next(rnd, "")
		if err := c.check(); err != nil {
			var chain strings.Builder
			for i, p := range c.phases {
				fmt.Fprintf(&chain, "\n%d: %v %v", i, p.from.Sub(c.phases[0].from), p.limits)
			}
			t.Errorf("seed %d: %v%s", seed, err, chain.String())
		}
		if len(c.arrivals) < 3*length {
			t.Errorf("seed %d: only %d requests have arrived", seed, len(c.arrivals))
		}
	}
	for seed := range int64(12) {
		t.Run(fmt.Sprint("reloads ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &chainRun{}
				run(t, seed, c, func(yaml string) func(*rand.Rand, string) {
					w := rig{dispatchtest.Start(t, c.serve, yaml, dispatch.Keeping{})}
					end := c.load(w)
					return func(_ *rand.Rand, yaml string) {
						if yaml != "" {
							w.Reload(yaml)
							return
						}
						end()
						w.Close()
					}
				})
			})
		})
		t.Run(fmt.Sprint("restarts ", seed), func(t *testing.T) {
			c := &chainRun{}
			runRestarts(t, newStatePath(t), time.Hour, c.serve, func(l *restartTest) {
				run(t, seed, c, func(yaml string) func(*rand.Rand, string) {
					w := l.begin(yaml)
					end := c.load(w.rig)
					return func(rnd *rand.Rand, yaml string) {
						if yaml != "" && rnd.Intn(2) == 0 {
							w.Reload(yaml)
							return
						}
						end()
						if w.end(); yaml != "" {
							w = l.begin(yaml)
							end = c.load(w.rig)
						}
					}
				})
			})
		})
	}
}
