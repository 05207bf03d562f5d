package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
)

// crawlState is a random configuration with a site, and the requests that have come so far.
type crawlState struct {
	yaml    string
	site    *windows
	denied  string   // the value of Authorization that the site does not accept; "": none
	tokens  int      // of the pool; 0: there is no pool
	clients []string // addresses
	coming  int      // requests that come before the question
	spread  time.Duration
}

// randomState draws a configuration, a site and its load.
func randomState(rng *rand.Rand) crawlState {
	s := crawlState{tokens: rng.IntN(4), coming: 1 + rng.IntN(60), spread: time.Duration(rng.IntN(90)) * time.Second}
	var yaml strings.Builder
	yaml.WriteString("queue: {wait: 24h}\n")
	if s.tokens > 0 {
		list := make([]string, s.tokens)
		for i := range list {
			list[i] = fmt.Sprintf("{label: t%d, secret: secret%d}", i, i)
		}
		fmt.Fprintf(&yaml, "pools:\n  api: {tokens: [%s]}\n", strings.Join(list, ", "))
		if s.tokens > 1 && rng.IntN(3) == 0 {
			s.denied = "Bearer secret1"
		}
	}
	yaml.WriteString("sites:\n  - host: api.test\n")
	if s.tokens > 0 {
		yaml.WriteString("    pool: api\n")
	}
	kinds := []string{"rolling", "fixed", "bucket", "paced"}
	by := []string{"", ", by: client"}
	if s.tokens > 0 {
		by = append(by, ", by: token")
	}
	var limits []string
	for range rng.IntN(3) {
		limits = append(limits, fmt.Sprintf("{requests: %d, per: %ds, as: %s%s}", 1+rng.IntN(12), 5+rng.IntN(60), kinds[rng.IntN(len(kinds))], by[rng.IntN(len(by))]))
	}
	fmt.Fprintf(&yaml, "    limits: [%s]\n", strings.Join(limits, ", "))
	s.yaml = yaml.String()
	s.site = &windows{limit: 1 << 30, window: time.Minute}
	if rng.IntN(2) == 0 {
		s.site = &windows{limit: 2 + rng.IntN(10), window: time.Duration(10+rng.IntN(90)) * time.Second, announces: true}
		if rng.IntN(2) == 0 {
			s.site.window = []time.Duration{5, 10, 15, 30, 60, 120}[rng.IntN(6)] * time.Second
		}
		s.site.fromFirst = rng.IntN(2) == 0
		s.site.latency = time.Duration(20+rng.IntN(300)) * time.Millisecond
		s.coming *= 3
		if rng.IntN(2) == 0 { // otherwise its first window may not be over
			s.spread = 4*s.site.window + time.Duration(rng.IntN(90))*time.Second
		}
	}
	for i := range 1 + rng.IntN(3) {
		s.clients = append(s.clients, fmt.Sprintf("192.0.2.%d", i))
	}
	return s
}

// answer answers for the site, which does not accept one of the tokens.
func (s *crawlState) answer(v *clock.Virtual, seen func(r *http.Request)) Answering {
	in := s.site.in(v)
	return func(r *http.Request, answer func(*http.Response, error)) {
		seen(r)
		if s.denied != "" && r.Header.Get("Authorization") == s.denied {
			v.AfterFunc(0, func() {
				answer(&http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}, Body: http.NoBody, Request: r}, nil)
			})
			return
		}
		in(r, answer)
	}
}

// startRequest sends a request in virtual time.
func startRequest(t *testing.T, d *Dispatcher, site Answering, client, address string, urgency int) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := d.NewRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	x.Address, x.Options.Urgency = client, urgency
	d.Start(context.Background(), x, site, func(*http.Response, error) { d.End(x, 0) })
}

// The time that an explanation gives is the time at which the request goes, if no other request
// comes. Of limits that the site announces abide knows the windows roughly, and a token that is put
// away comes back to be denied again.
func TestTheTimeOfAnExplanationIsTheTimeAtWhichTheRequestGoes(t *testing.T) {
	seeds := uint64(600)
	if Raced {
		seeds = 100
	}
	announced, off := 0, 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := randomState(rng)
		expected, went := s.ask(t, rng)
		late := (went - expected).Abs()
		switch {
		case s.site.announces:
			announced++
			if late > s.site.window*3/2 && late > went*15/100 {
				off++
			}
		case s.denied != "" && went > 10*time.Minute:
		case late > 10*time.Millisecond:
			t.Errorf("seed %d: expected after %v, went after %v\n%s", seed, expected, went, s.yaml)
		}
	}
	if off*100 > announced*8 {
		t.Errorf("of %d times that depend on announced limits, %d are far off", announced, off)
	}
}

// ask has the requests of a state come, asks when one more would go, and sends that one.
func (s *crawlState) ask(t *testing.T, rng *rand.Rand) (expected, went time.Duration) {
	t.Helper()
	begin := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(rng.IntN(120)) * time.Second)
	v := clock.NewVirtual(begin)
	d := virtual(t, v, s.yaml)
	var sent time.Time
	site := s.answer(v, func(r *http.Request) {
		if r.URL.Path == "/guest" && sent.IsZero() {
			sent = v.Now()
		}
	})
	for i := range s.coming {
		client, urgency := s.clients[rng.IntN(len(s.clients))], rng.IntN(3)*3
		v.AfterFunc(time.Duration(rng.Int64N(int64(s.spread)+1)), func() {
			startRequest(t, d, site, client, fmt.Sprintf("https://api.test/items/%d", i), urgency)
		})
	}
	reached := false
	v.AfterFunc(s.spread+time.Millisecond, func() { reached = true })
	for !reached && v.Step() {
	}
	asked := v.Now()
	e, err := NewView(d, nil).Explain(http.MethodGet, &url.URL{Scheme: "https", Host: "api.test", Path: "/guest"}, s.clients[0])
	if err != nil {
		t.Fatal(err)
	}
	startRequest(t, d, site, s.clients[0], "https://api.test/guest", 0)
	for sent.IsZero() && v.Step() {
	}
	if e.Expected.IsZero() {
		t.Errorf("no time is expected for a request that went after %v\n%s", sent.Sub(asked), s.yaml)
		return 0, 0
	}
	return e.Expected.Sub(asked), sent.Sub(asked)
}
