package dispatch_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"
)

// wouldWait is for how many seconds a request that is only observed would have waited, and
// whether it would have.
func wouldWait(r result) (seconds float64, held bool) {
	if r.Would == nil || r.Would.Until.IsZero() {
		return 0, false
	}
	return max(r.Would.Until.Sub(r.First).Seconds(), 0), true
}

// Limits in a file tell the time until a request may be sent, not until the file was
// written, and requests count also after a restart.
func TestObserveWithAStateFile(t *testing.T) {
	const yaml = "mode: observe\npools: {p: {tokens: [{label: a, secret: a-secret}]}}\nsites:\n" +
		"  - {host: site.test, learn: false, limits: [{requests: 10, per: 10s}]}\n" +
		"  - {host: pool.test, learn: false, insecure: true, pool: p, limits: [{requests: 10, per: 10s, by: token, as: fixed}]}\n"
	for _, slow := range []time.Duration{0, 40 * time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			runRestarts(t, newStatePath(t), time.Millisecond, func(http.ResponseWriter, *http.Request) {}, func(l *restartTest) {
				l.slow = slow
				sum := map[string]float64{}
				for life := range 2 {
					w := l.begin(yaml)
					for _, host := range []string{"site.test", "pool.test"} {
						for i := range 10 {
							got := w.Get("http://" + host + "/")
							wait, held := wouldWait(got)
							switch {
							case got.Status != 200 || got.At > 0:
								t.Errorf("%s, life %d, request %d: %d after %v", host, life, i, got.Status, got.At)
							case life == 0 && held:
								t.Errorf("%s, request %d of 10 would wait for %v", host, i, wait)
							case life == 1 && (!held || wait < 9 || wait > 10):
								t.Errorf("%s, request %d more than 10 would wait for %v", host, i, wait)
							}
							sum[host] += wait
						}
					}
					if life == 1 {
						for _, one := range w.Observed() {
							if math.Abs(one.Seconds-sum[one.Site]) > 0.1 {
								t.Errorf("%+v, the answers said %v", one, sum[one.Site])
							}
						}
						if n := len(w.Observed()); n != 2 || len(w.Blocked()) != 0 {
							t.Error(fmt.Sprint(n, w.Blocked()))
						}
					}
					w.end()
				}
			})
		})
	}
}
