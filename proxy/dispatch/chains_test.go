package dispatch_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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
