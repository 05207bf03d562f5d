package dispatch_test

import (
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestATokenWithoutCreditCostsNoClientAnything: the other tokens of the pool do the work, whatever
// the answer by which a token fails, and the log and the view name the reason.
func TestATokenWithoutCreditCostsNoClientAnything(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		why    string
		errors int // answers that clients see until the token is known
	}{
		"402 that says why":             {402, `{"title":"CreditsDepleted"}`, "402: no credit", 0},
		"400 that says why":             {400, `{"error":{"message":"Your credit balance is too low to access the API."}}`, "400: no credit", 0},
		"403 that says why":             {403, `{"message":"Sorry. Your account was suspended."}`, "403: account suspended", 0},
		"402 without a word":            {402, "", "402", 0},
		"422 that others do not get":    {422, `{"error":"plan"}`, "422 where another token succeeds", 2},
		"404 that others do not get":    {404, "", "404 where another token succeeds", 2},
		"429 without a wait, no credit": {429, `{"error":{"code":"insufficient_quota"}}`, "429: no credit", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			asked := map[string]int{}
			run(t, func(rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked[secretOf(r)]++
				mu.Unlock()
				if secretOf(r) == "a-secret" {
					rw.WriteHeader(c.status)
					rw.Write([]byte(c.body))
				}
			}, poolWith(""), func(w rig) {
				errors := 0
				for range 40 {
					if got := w.Get("http://site.test/items"); got.Status != 200 {
						errors++
					}
				}
				if errors != c.errors || asked["a-secret"] > 7 {
					t.Errorf("clients see %d errors, the token is asked %d times", errors, asked["a-secret"])
				}
				if token := w.Pools()[0].Tokens[0]; token.Label != "a" || token.State != "quarantined" || token.Why != c.why {
					t.Errorf("%s is %s, %q", token.Label, token.State, token.Why)
				}
			})
		})
	}
}

func TestWhereNoTokenHasCreditTheClientSeesTheAnswer(t *testing.T) {
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(402)
		rw.Write([]byte(`{"title":"CreditsDepleted"}`))
	}, poolWith(""), func(w rig) {
		for range 10 {
			if got := w.Get("http://site.test/items"); got.Status != 402 || got.At > 0 && got.At.Minutes() > 1 {
				t.Errorf("%d after %v", got.Status, got.At)
			}
		}
	})
}

// TestAnAnswerThatAcceptsATokenLetsRequestsGo: a success that comes after the quarantine has begun ends it
// for the requests that wait, too.
func TestAnAnswerThatAcceptsATokenLetsRequestsGo(t *testing.T) {
	const alone = "pools:\n  p:\n    tokens:\n      - {label: a, secret: a-secret}\nsites:\n  - {host: site.test, pool: p, insecure: true}\n"
	run(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bad":
			rw.WriteHeader(401)
		case "/slowbad":
			elapse(600 * time.Millisecond)
			rw.WriteHeader(401)
		case "/slowok":
			elapse(1500 * time.Millisecond)
		}
	}, alone, func(w rig) {
		for range 10 { // until requests go beside each other
			w.Get("http://site.test/slowok")
		}
		w.Get("http://site.test/bad")
		w.Get("http://site.test/bad")
		began := time.Now()
		var both sync.WaitGroup
		both.Go(func() { w.Get("http://site.test/slowbad") })
		elapse(200 * time.Millisecond)
		both.Go(func() { w.Get("http://site.test/slowok") })
		both.Wait()
		if got := w.Get("http://site.test/ok"); got.Status != 200 || time.Since(began) > time.Minute {
			t.Errorf("%d after %v", got.Status, time.Since(began))
		}
	})
}
