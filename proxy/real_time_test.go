package proxy

import (
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestAHundredRequestsTakeTenSecondsOfRealTimeToo compares with a chain of timers, because
// on a busy machine a timer that is late delays all later ones.
func TestAHundredRequestsTakeTenSecondsOfRealTimeToo(t *testing.T) {
	const each, n = 100 * time.Millisecond, 100
	for _, as := range []string{"paced", "bucket, burst: 1"} {
		t.Run(as, func(t *testing.T) {
			t.Parallel()
			b := newTestProxy(t, "sites: [{host: "+host+", limits: [{requests: 10, per: 1s, as: "+as+"}]}]")
			b.handle(func(http.ResponseWriter, *http.Request) {})
			c := b.client(false)
			began := time.Now()
			var all sync.WaitGroup
			var usual time.Duration
			all.Go(func() {
				for range n - 1 {
					<-time.After(each)
				}
				usual = time.Since(began)
			})
			for range n {
				all.Go(func() {
					resp, err := c.Get("http://" + host + "/")
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
					if resp.StatusCode != 200 {
						t.Errorf("%d", resp.StatusCode)
					}
				})
			}
			all.Wait()
			took := time.Since(began)
			late := max(usual-(n-1)*each, 0)
			t.Logf("%v, and %v of timers alone", took, usual)
			// Ten seconds but for the first, which goes at once.
			if took < (n-1)*each || took > n*each*103/100+3*late {
				t.Errorf("%v, and %v of timers alone", took, usual)
			}
		})
	}
}
