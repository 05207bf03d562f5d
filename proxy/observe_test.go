package proxy

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"
)

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
							got := w.get(w.client(), "http://"+host+"/")
							said := got.header.Get("Abide-Would-Wait")
							wait, err := strconv.ParseFloat(said, 64)
							switch {
							case got.status != 200 || got.at > 0:
								t.Errorf("%s, life %d, request %d: %d after %v", host, life, i, got.status, got.at)
							case life == 0 && said != "":
								t.Errorf("%s, request %d of 10 would wait for %s", host, i, said)
							case life == 1 && (err != nil || wait < 9 || wait > 10):
								t.Errorf("%s, request %d more than 10 would wait for %q", host, i, said)
							}
							sum[host] += wait
						}
					}
					if life == 1 {
						for _, one := range w.server.Observed() {
							if math.Abs(one.Seconds-sum[one.Site]) > 0.1 {
								t.Errorf("%+v, the answers said %v", one, sum[one.Site])
							}
						}
						if n := len(w.server.Observed()); n != 2 || len(w.server.Blocked()) != 0 {
							t.Error(fmt.Sprint(n, w.server.Blocked()))
						}
					}
					w.end()
				}
			})
		})
	}
}
