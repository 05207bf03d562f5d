package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestASuccessThatSaysThatALimitIsReachedIsARefusal: Etherscan, Last.fm and Alpha Vantage refuse with 200.
func TestASuccessThatSaysThatALimitIsReachedIsARefusal(t *testing.T) {
	for _, text := range []string{
		`{"status":"0","message":"NOTOK","result":"Max rate limit reached"}`,
		`{"error":29,"message":"Rate Limit Exceeded"}`,
		`{"Note":"Our standard API call frequency is 5 calls per minute."}`,
	} {
		limit := &window{n: 5, per: 2 * time.Second}
		sites := func(rw http.ResponseWriter, r *http.Request) {
			elapse(20 * time.Millisecond)
			rw.Header().Set("Content-Type", "application/json")
			if limit.full() {
				fmt.Fprint(rw, text)
				return
			}
			fmt.Fprintf(rw, `{"result":%q}`, r.URL.Path)
		}
		run(t, sites, "", func(w rig) {
			good := 0
			for i := range 60 {
				if a := w.Get(fmt.Sprintf("http://site.test/pages/%d", i)); strings.Contains(a.Body, "/pages/") {
					good++
				}
			}
			if took := time.Since(w.Began); good != 60 || limit.refused > 30 || took > 60*time.Second {
				t.Errorf("%s: %d of 60, %d refused, in %v", text, good, limit.refused, took)
			}
		})
	}
}

// TestAnAnswerAboutRateLimitsIsNoRefusal: documents about them are fetched as fast as others, whether all are or a few.
func TestAnAnswerAboutRateLimitsIsNoRefusal(t *testing.T) {
	for _, every := range []int{1, 2, 7} {
		n := 0
		sites := func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			about := "a plan"
			if i := strings.LastIndexByte(r.URL.Path, '/'); len(r.URL.Path[i+1:])%every == 0 {
				about = "a plan with a rate limit of 5 requests per second" + r.URL.Path
			}
			fmt.Fprintf(rw, `{"name":%q}`, about)
		}
		run(t, sites, "", func(w rig) {
			for ; n < 300; n++ {
				a := w.Get("http://site.test/plans/" + strings.Repeat("7", n%50+1))
				if a.Status != http.StatusOK || !strings.Contains(a.Body, "a plan") {
					t.Fatalf("%d: %d %s", n, a.Status, a.Body)
				}
			}
			if took, more := time.Since(w.Began), w.Asked.Load()-300; took > 10*time.Second || more > 30 {
				t.Errorf("one of %d: %v, and %d requests more", every, took, more)
			}
		})
	}
}
