package main

import (
	"slices"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// TestWhatServicesAnnounceIsUsedToTheFullInAllSettings: nothing is refused, whatever the number
// of tokens and clients, the time of an answer and the clock of the service.
func TestWhatServicesAnnounceIsUsedToTheFullInAllSettings(t *testing.T) {
	for _, s := range announcedServices {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range pairedSettings() {
				ideal := newRun(s, c).ideal()
				r, err := newRun(s, c).abide()
				if err != nil {
					t.Fatal(err)
				}
				refused := 0
				if s.goal.unsaid {
					refused = max(s.requests/100, c.tokens)
				}
				ratio := r.took.Seconds() / ideal.Seconds()
				t.Logf("%v: %.2f × ideal, %d refused", c, ratio, r.refused)
				if r.errors > 0 || r.refused > refused {
					t.Errorf("%v: %d refused, %d errors, such as %v", c, r.refused, r.errors, r.failed)
				}
				// Each window may begin two answers and a second later than it could: its end is
				// often announced in whole seconds, and the first answer tells that it has begun. Some
				// answers pass until as many are in flight as may be.
				late := time.Duration(s.windows(c.tokens)+5) * (2*c.latency + time.Second)
				if most := time.Duration(s.goalOf(c.tokens).ratio*float64(ideal)) + late; r.took > most {
					t.Errorf("%v: it takes %v and not %v, where %v is ideal", c, r.took, most, ideal)
				}
			}
		})
	}
}

// windows returns how many windows a crawl needs with so many tokens.
func (s *service) windows(tokens int) int {
	most, paths := 0, max(1, len(s.paths))
	for n := range paths {
		for _, r := range s.rules(s.path(n)) {
			amount, _, _ := state(r, start)
			if _, continuous := r.(*bucket); !continuous {
				most = max(most, s.requests/paths/(amount*tokens)+1)
			}
		}
	}
	return most
}

func TestEachTwoSettingsMeet(t *testing.T) {
	for a := range 4 {
		for b := range a {
			var met []int
			for _, row := range pairs {
				met = append(met, 3*row[a]+row[b])
			}
			slices.Sort(met)
			if len(slices.Compact(met)) != 9 {
				t.Errorf("columns %d and %d: %v", b, a, met)
			}
		}
	}
}

// TestAThousandPagesOfRetweetersTakeAsLongAsTheyMust: three tokens may fetch 225 pages in a
// quarter of an hour, so that the last hundred of a thousand come in the fifth quarter, an
// hour after the first.
func TestAThousandPagesOfRetweetersTakeAsLongAsTheyMust(t *testing.T) {
	s := *serviceOf(t, "X")
	s.requests = 1000
	r, err := newRun(&s, setting{clients: 10, tokens: 3}).abide()
	if err != nil {
		t.Fatal(err)
	}
	if r.took < time.Hour || r.took > time.Hour*101/100 || r.refused > 0 || r.errors > 0 {
		t.Errorf("%v, %d refused, %d errors, such as %v", r.took, r.refused, r.errors, r.failed)
	}
}

// TestADeadTokenIsNoticedAndComesBack checks that clients do not see the refusals of one of
// five tokens.
func TestADeadTokenIsNoticedAndComesBack(t *testing.T) {
	for _, clients := range []int{1, 20} {
		s := *serviceOf(t, "GCRA")
		s.requests = 5 * 25 * 60
		dead, again := 0, 0
		s.denied = func(token string, at time.Duration) bool {
			switch {
			case token != "Bearer t3":
				return false
			case at < 8*time.Minute:
				dead++
				return true
			}
			again++
			return false
		}
		r, err := newRun(&s, setting{clients: clients, tokens: 5}).abide()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d clients: tried %d times while it was dead, %d times afterwards; %v, %d refused", clients, dead, again, r.took, r.refused)
		if r.errors > 0 || dead == 0 || dead > 3 || again < 100 {
			t.Errorf("%d clients: it was tried %d times while it was dead and %d times afterwards; %d errors, such as %v", clients, dead, again, r.errors, r.failed)
		}
	}
}

// TestALimitOfRequestsAtOnceIsFoundOut: the limit of a hundred requests at once of GitHub shows
// only by refusals, which also refuse requests in flight.
func TestALimitOfRequestsAtOnceIsFoundOut(t *testing.T) {
	s := *serviceOf(t, "GitHub, core and search")
	s.paths, s.requests = s.paths[:1], 10000
	s.rules = own(func() rule { return &window{amount: 5000, length: time.Hour} })
	c := setting{clients: 150, tokens: 1, latency: 500 * time.Millisecond}
	ideal := newRun(&s, c).ideal()
	r, err := newRun(&s, c).abide()
	if err != nil {
		t.Fatal(err)
	}
	ratio := r.took.Seconds() / ideal.Seconds()
	t.Logf("%.2f × ideal, %d refused", ratio, r.refused)
	if r.errors > 0 || r.refused > 60 || ratio > 1.05 {
		t.Errorf("%.2f × ideal, %d refused, %d errors, such as %v", ratio, r.refused, r.errors, r.failed)
	}
}

// TestServicesEnforceWhatTheyAnnounce reads each answer as abide does, and compares it with what
// the service counts.
func TestServicesEnforceWhatTheyAnnounce(t *testing.T) {
	for _, s := range announcedServices {
		for _, skew := range someSkews {
			t.Run(s.name+" "+skew.String(), func(t *testing.T) {
				for n := range max(1, len(s.paths)) {
					method, path := s.line(n)
					site, now, refused := newSite(s, start, skew), start, false
					for ask := 0; !refused && ask < 5000; ask++ {
						status, h, body, done := site.answer(now, "Bearer t0", path, n)
						done()
						refused = h.Get(refusedHeader) != ""
						h.Del(refusedHeader)
						compareLesson(t, site, learn.Read(status, h, []byte(body), learn.Request{Method: method, Host: s.host, Path: path}, now), path, now, refused)
						if t.Failed() {
							t.Fatalf("request %d of %s: %d %v %s", ask, path, status, h, body)
						}
					}
					if !refused {
						t.Fatalf("%s is never refused", path)
					}
					at := site.next(now, "Bearer t0", path, site.costOf(n))
					if status, h, _, _ := site.answer(at, "Bearer t0", path, n); h.Get(refusedHeader) != "" {
						t.Errorf("%s: %d at the time at which it is to be accepted", path, status)
					}
				}
			})
		}
	}
}

// compareLesson compares what abide reads in an answer with the rules of the service.
func compareLesson(t *testing.T, s *site, l learn.Lesson, path string, now time.Time, refused bool) {
	t.Helper()
	if l.Throttled != refused {
		t.Errorf("refused: %v: %+v", refused, l)
	}
	for _, r := range s.of("Bearer t0", path) {
		amount, left, back := state(r, now.Add(s.skew))
		back = back.Add(-s.skew)
		found := slices.ContainsFunc(l.Limits, func(said learn.Limit) bool {
			if said.Limit.Known && said.Limit.N != float64(amount) || !said.Remaining.Known || said.Remaining.N != float64(left) {
				return false
			}
			// A truncated time is as much early as its resolution, and clocks are compared
			// through a Date in whole seconds.
			d := said.Reset.Sub(back)
			return said.Reset.IsZero() || d >= -said.Resolution-time.Second && d <= 2*time.Second
		})
		if !found {
			t.Errorf("%d left of %d, until %v: %+v", left, amount, back, l.Limits)
		}
	}
}
