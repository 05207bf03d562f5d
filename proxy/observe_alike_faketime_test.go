package proxy

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// What a request would have waited is the same with a state file and without, for each
// arithmetic, at once and later, and the sum of it is what is counted.
func TestObserveSaysTheSameWithAStateFile(t *testing.T) {
	for _, limit := range []string{
		"{requests: 10, per: 10s}", "{requests: 10, per: 10s, as: fixed}", "{requests: 10, per: 10s, as: first-use}",
		"{requests: 10, per: 10s, as: bucket, burst: 3}", "{requests: 10, per: 10s, as: paced}", "{requests: 10, per: 100s, as: paced}",
	} {
		t.Run(limit, func(t *testing.T) {
			yaml := "mode: observe\nsites:\n  - {host: site.test, learn: false, limits: [" + limit + "]}\n"
			ask := func(w *world) (waits []float64) {
				begins(100 * time.Second)
				sum := 0.0
				for i := range 40 {
					got := w.get(w.client(), "http://site.test/")
					wait, _ := strconv.ParseFloat(got.header.Get("Abide-Would-Wait"), 64)
					if got.status != 200 {
						t.Errorf("request %d: %d", i, got.status)
					}
					waits, sum = append(waits, wait), sum+wait
					if i > 20 {
						time.Sleep(333 * time.Millisecond)
					}
				}
				counted := 0.0
				for _, one := range w.server.Observed() {
					counted += one.Seconds
				}
				if math.Abs(counted-sum) > 0.5 {
					t.Errorf("%v seconds are counted, the answers said %v", counted, sum)
				}
				return waits
			}
			var plain, kept []float64
			bubble(t, func(http.ResponseWriter, *http.Request) {}, yaml, func(w *world) { plain = ask(w) })
			afterlife(t, newStatePath(t), time.Millisecond, func(http.ResponseWriter, *http.Request) {}, func(l *lives) {
				l.slow = 5 * time.Millisecond
				w := l.begin(yaml)
				kept = ask(w.world)
				w.end()
			})
			for i := range plain {
				if math.Abs(plain[i]-kept[i]) > 0.1 {
					t.Fatalf("request %d would wait for %v, and with a state file for %v:\n%v\n%v", i, plain[i], kept[i], plain, kept)
				}
			}
		})
	}
}
