package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAThousandPagesOfRetweetersTakeAsLongAsTheyMust: three tokens may fetch 225 pages in a
// quarter of an hour, so that the last hundred of a thousand come in the fifth quarter, an
// hour after the first.
func TestAThousandPagesOfRetweetersTakeAsLongAsTheyMust(t *testing.T) {
	const tweets, pages, tokens, limit = 10, 100, 3, 75
	const least = (tweets*pages - 1) / (tokens * limit) * 15 * time.Minute
	o := newSimOrigin(simX(), tokens, 100*time.Millisecond, 0)
	bubble(t, o.serve, simPool(o), func(w *bubbleProxy) {
		o.begin()
		o.until = time.Time{}
		began := time.Now()
		var all sync.WaitGroup
		for tweet := range tweets {
			c := w.client()
			all.Go(func() {
				for page := range pages {
					u := fmt.Sprintf("http://%s/2/tweets/%d/retweeted_by?pagination_token=%d", o.host, 1460323737035677698+tweet, page)
					if a := w.get(c, u); a.status != 200 {
						t.Errorf("%d %s", a.status, a.body)
						return
					}
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		t.Logf("%v, of which %v must be; %d refused", took, least, o.count.refused)
		if took < least || took > least*101/100 || o.count.refused != 0 {
			t.Errorf("%v, %d refused", took, o.count.refused)
		}
	})
}

// simHidden announces nothing and refuses requests beyond its rate.
func simHidden(rate, burst float64) *simService {
	return &simService{
		name: "hidden", host: "hidden.test", span: 6 * time.Hour, windows: 1, counts: []int{0},
		paths: []string{"/pages/%d"}, bucket: simOneBucket,
		limits: func(string) []simMeter { return []simMeter{&simBucket{size: burst, rate: rate}} },
		say: func(w simWord, _ http.Header) (int, string) {
			if !w.served {
				return 429, ""
			}
			return 200, "page"
		},
	}
}

func TestAHiddenRateIsFoundAndKept(t *testing.T) {
	const rate, hours = 1, 4
	for _, clients := range []int{1, 20} {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
			o := newSimOrigin(simHidden(rate, 10), 1, 100*time.Millisecond, 0)
			o.secrets, o.by = []string{""}, map[string]*simCount{"": {}}
			var served, refused [hours]int
			bubble(t, o.serve, "queue: {wait: 12h}\n", func(w *bubbleProxy) {
				until := o.begin()
				began := time.Now()
				var crawl sync.WaitGroup
				crawl.Go(func() {
					if odd := simCrawl(w, o, clients, until); len(odd) > 0 {
						t.Errorf("a client was shown %d answers such as %s", len(odd), odd[0])
					}
				})
				before := 0
				for hour := range hours {
					elapse(time.Hour - time.Millisecond)
					o.mu.Lock()
					served[hour], before = o.count.served-before, o.count.served
					o.mu.Unlock()
					elapse(time.Millisecond)
				}
				crawl.Wait()
				for _, at := range o.times {
					refused[min(int(at.Sub(began)/time.Hour), hours-1)]++
				}
			})
			t.Logf("an hour each: served %v, refused %v", served, refused)
			for hour := hours - 2; hour < hours; hour++ {
				if refused[hour]*500 > served[hour] {
					t.Errorf("hour %d: %d refused of %d", hour, refused[hour], served[hour]+refused[hour])
				}
				if float64(served[hour]) < .9*rate*3600 {
					t.Errorf("hour %d: %d of %d used", hour, served[hour], rate*3600)
				}
			}
			if refused[hours-1] > refused[0] {
				t.Errorf("refusals do not fall: %v", refused)
			}
		})
	}
}

// TestADeadTokenIsNoticedAndComesBack checks that clients do not see the refusals of one of
// five tokens.
func TestADeadTokenIsNoticedAndComesBack(t *testing.T) {
	for _, clients := range []int{1, 20} {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
			s := simGCRA()
			s.span = 25 * time.Minute
			o := newSimOrigin(s, 5, 100*time.Millisecond, 0)
			dead := o.secrets[rand.New(rand.NewPCG(1, uint64(clients))).IntN(5)]
			var tried, again atomic.Int64
			bubble(t, o.serve, simPool(o), func(w *bubbleProxy) {
				until := o.begin()
				began := time.Now()
				o.dead = func(secret string, now time.Time) bool {
					if secret != dead {
						return false
					}
					switch {
					case now.Before(began.Add(8 * time.Minute)):
						tried.Add(1)
						return true
					default:
						again.Add(1)
					}
					return false
				}
				if odd := simCrawl(w, o, clients, until); len(odd) > 0 {
					t.Errorf("a client was shown %d answers such as %s", len(odd), odd[0])
				}
			})
			t.Logf("tried %d times while it was dead, %d times afterwards; %d served, %d refused", tried.Load(), again.Load(), o.count.served, o.count.refused)
			if n := tried.Load(); n == 0 || n > 3 {
				t.Errorf("it was tried %d times while it was dead", n)
			}
			if again.Load() < 100 {
				t.Errorf("it was tried %d times afterwards", again.Load())
			}
		})
	}
}

// TestEachChannelOfABucketIsUsedToTheFull: Discord's buckets have the same name for all
// channels and a count for each channel.
func TestEachChannelOfABucketIsUsedToTheFull(t *testing.T) {
	s := simDiscordOf("/api/v10/channels/41771983423143937/messages", "/api/v10/channels/41771983423143938/messages", "/api/v10/channels/41771983423143939/messages")
	s.span = 20 * time.Minute
	r := simAbide(t, simCase{s, 1, 30, 100 * time.Millisecond, 0})
	t.Logf("%d served, %d refused at %v, %.1f %% used", r.served, r.refused, r.refusals[:min(10, r.refused)], 100*r.share)
	if len(r.odd) != 0 || r.refused > 0 || r.share < .9 {
		t.Errorf("%d served, %d refused, %.1f %% used, %v", r.served, r.refused, 100*r.share, r.odd)
	}
}

// TestALimitOfRequestsAtOnceIsFoundOut: GitHub's limit of a hundred requests at once shows
// only by refusals, which also refuse requests in flight.
func TestALimitOfRequestsAtOnceIsFoundOut(t *testing.T) {
	s := simGitHub(5000, 30)
	s.paths, s.windows = s.paths[:1], 1
	r := simAbide(t, simCase{s, 1, 150, 500 * time.Millisecond, 0})
	t.Logf("%d served, %d refused at %v, %.1f %% used", r.served, r.refused, r.refusals[:min(10, r.refused)], 100*r.share)
	if len(r.odd) != 0 || r.refused > 60 || r.share < .95 {
		t.Errorf("%d served, %d refused, %.1f %% used, %v", r.served, r.refused, 100*r.share, r.odd)
	}
}
