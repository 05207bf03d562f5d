package dispatch_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// accounts is a site that allows a number of requests per account and minute. Several tokens
// may be of one account. A minute begins with the first request.
type accounts struct {
	of    map[string]string // :: Authorization → account
	limit int

	mu      sync.Mutex
	windows map[string]*accountWindow
	refused int
}

type accountWindow struct {
	left int
	ends time.Time
}

// use takes one request from an account. It returns what is left, and until when.
func (s *accounts) use(account string, now time.Time) (left int, ends time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[account]
	if w == nil || !now.Before(w.ends) {
		w = &accountWindow{s.limit, now.Add(time.Minute)}
		s.windows[account] = w
	}
	if w.left == 0 {
		s.refused++
		return 0, w.ends, false
	}
	w.left--
	return w.left, w.ends, true
}

func (s *accounts) serve(rw http.ResponseWriter, r *http.Request) {
	account := s.of[r.Header.Get("Authorization")]
	if account == "" {
		rw.WriteHeader(401)
		return
	}
	elapse(20 * time.Millisecond)
	now := time.Now()
	left, ends, ok := s.use(account, now)
	rw.Header().Set("X-RateLimit-Limit", strconv.Itoa(s.limit))
	rw.Header().Set("X-RateLimit-Remaining", strconv.Itoa(left))
	rw.Header().Set("X-RateLimit-Reset", strconv.Itoa(int(ends.Sub(now).Seconds())+1))
	if !ok {
		rw.WriteHeader(429)
	}
	elapse(20 * time.Millisecond)
}

const accountsPool = `
queue: {wait: 12h}
pools:
  p: {tokens: [{label: ann, secret: ann-secret}, {label: ann-too, secret: ann-other}, {label: bob, secret: bob-secret}]}
sites:
  - {host: site.test, pool: p, insecure: true}
`

func newAccounts() *accounts {
	return &accounts{
		limit: 60, windows: map[string]*accountWindow{},
		of: map[string]string{"Bearer ann-secret": "ann", "Bearer ann-other": "ann", "Bearer bob-secret": "bob"},
	}
}

// crawl runs clients that send requests without pause for d.
func (s *accounts) crawl(w rig, clients int, d time.Duration) {
	until := time.Now().Add(d)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for time.Now().Before(until) {
				if a := w.Get("http://site.test/page", "Authorization", "Bearer of the client"); a.Status != 200 {
					w.T.Errorf("%d %s", a.Status, a.Body)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestTokensOfOneAccountShareItsLimits(t *testing.T) {
	s := newAccounts()
	config := strings.NewReplacer("label: ann,", "label: ann, account: a,", "label: ann-too,", "label: ann-too, account: a,").Replace(accountsPool)
	run(t, s.serve, config, func(w rig) {
		s.crawl(w, 4, 10*time.Minute)
		pool := w.Pools()[0]
		for i, want := range [][]string{{"ann-too"}, {"ann"}, nil} {
			if got := pool.Tokens[i].Twins; !slices.Equal(got, want) {
				t.Errorf("the twins of %s are %v", pool.Tokens[i].Label, got)
			}
		}
		if s.refused > 0 {
			t.Errorf("%d refused", s.refused)
		}
	})
}

func TestUseByOthersIsNoticed(t *testing.T) {
	s := newAccounts()
	s.of["Bearer ann-other"] = "another"
	run(t, s.serve, accountsPool, func(w rig) {
		const minutes = 20
		done := make(chan struct{})
		go func() { // another program uses bob's token
			defer close(done)
			chance := rand.New(rand.NewPCG(1, 2))
			for range minutes * 20 { // otherwise a request would seem to cost more
				elapse(time.Duration(chance.Int64N(int64(6 * time.Second))))
				s.use("bob", time.Now())
			}
		}()
		for range minutes * 30 { // 10 a minute with each token
			if a := w.Get("http://site.test/page"); a.Status != 200 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			elapse(1900 * time.Millisecond)
		}
		<-done
		shares := map[string]float64{}
		for _, l := range w.Limits() {
			shares[l.Token] = l.Foreign
		}
		if shares["bob"] < .3 || shares["ann"] != 0 || shares["ann-too"] != 0 || s.refused != 0 {
			t.Errorf("others use %v; %d refused", shares, s.refused)
		}
	})
}
