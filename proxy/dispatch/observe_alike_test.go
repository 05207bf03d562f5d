package dispatch_test

import (
	"math"
	"net/http"
	"testing"
	"time"
)

// What a request would have waited is the same with a state file and without, for each kind
// of limit, at once, later and after a restart.
func TestObserveSaysTheSameWithAStateFile(t *testing.T) {
	for _, limit := range []string{
		"{requests: 10, per: 10s}", "{requests: 10, per: 10s, as: fixed}", "{requests: 10, per: 10s, as: first-use}",
		"{requests: 10, per: 10s, as: bucket, burst: 3}", "{requests: 10, per: 10s, as: paced, by: client}",
		"{requests: 10, per: 10s, as: paced}, {requests: 30, per: 60s}", "{requests: 10, per: 10s, as: paced, by: route}",
		"{requests: 100, per: 10s, as: paced}", "{requests: 1, per: 10s, as: paced}", "{requests: 1000, per: 1s, as: paced}",
		"{requests: 10, per: 10s, as: paced, each: 3}", "{requests: 10, per: 10s, as: paced}", "{requests: 10, per: 100s, as: paced}",
	} {
		for _, again := range []bool{false, true} {
			t.Run(limit, func(t *testing.T) {
				yaml := "mode: observe\nsites:\n  - {host: site.test, learn: false, limits: [" + limit + "]}\n"
				ask := func(w rig) (waits []float64) {
					for i := range 40 {
						got := w.Get("http://site.test/")
						wait, _ := wouldWait(got)
						if got.Status != 200 {
							t.Errorf("request %d: %d", i, got.Status)
						}
						waits = append(waits, wait)
						if i > 20 {
							elapse(333 * time.Millisecond)
						}
					}
					return waits
				}
				var plain, stored []float64
				run(t, func(http.ResponseWriter, *http.Request) {}, yaml, func(w rig) {
					startOfWindow(100 * time.Second)
					plain = ask(w)
					elapse(5 * time.Second)
					plain = append(plain, ask(w)...)
				})
				runRestarts(t, newStatePath(t), time.Millisecond, func(http.ResponseWriter, *http.Request) {}, func(l *restartTest) {
					l.slow = 40 * time.Millisecond
					w := l.begin(yaml)
					startOfWindow(100 * time.Second)
					stored = ask(w.rig)
					elapse(5 * time.Second)
					if again {
						w.end()
						w = l.begin(yaml)
					}
					stored = append(stored, ask(w.rig)...)
					w.end()
				})
				for i := range plain {
					if math.Abs(plain[i]-stored[i]) > 0.1 {
						t.Fatalf("request %d would wait for %v, and with a state file for %v:\n%v\n%v", i, plain[i], stored[i], plain, stored)
					}
				}
			})
		}
	}
}
