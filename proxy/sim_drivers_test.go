package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// simCase is one cell of the table.
type simCase struct {
	service         *simService
	tokens, clients int
	trip, skew      time.Duration
}

func (c simCase) String() string {
	return fmt.Sprintf("%s, %d tokens, %d clients, %v, %v", c.service.name, c.tokens, c.clients, c.trip, c.skew)
}

func (c simCase) origin() *simOrigin { return newSimOrigin(c.service, c.tokens, c.trip, c.skew) }

// simResult is the result of a simCase.
type simResult struct {
	served, refused int
	share           float64
	odd             []string // answers that a client should not have seen
	refusals        []time.Duration
}

func (o *simOrigin) result(clients int, began time.Time) simResult {
	r := simResult{share: o.share(clients)}
	o.mu.Lock()
	defer o.mu.Unlock()
	r.served, r.refused = o.count.served, o.count.refused
	for _, at := range o.times {
		r.refusals = append(r.refusals, at.Sub(began))
	}
	return r
}

// simPool is a configuration with the tokens of a site.
func simPool(o *simOrigin) string {
	var b strings.Builder
	b.WriteString("queue: {wait: 12h}\npools:\n  crawl:\n    tokens:\n")
	for i, secret := range o.secrets {
		fmt.Fprintf(&b, "      - {label: t%02d, secret: %s}\n", i, secret)
	}
	fmt.Fprintf(&b, "sites:\n  - {host: %s, pool: crawl, insecure: true}\n", o.host)
	return b.String()
}

// simAbide runs clients that know no limit through abide.
func simAbide(t *testing.T, c simCase) (result simResult) {
	t.Helper()
	o := c.origin()
	bubble(t, o.serve, simPool(o), func(w *bubbleProxy) {
		until := o.begin()
		began := time.Now()
		odd := simCrawl(w, o, c.clients, until)
		result = o.result(c.clients, began)
		result.odd = odd
	})
	return result
}

// simCrawl runs clients that fetch page after page as fast as they can. It returns the
// responses that a client should not get.
func simCrawl(w *bubbleProxy, o *simOrigin, clients int, until time.Time) (odd []string) {
	began := time.Now()
	ctx, cancel := context.WithDeadline(w.t.Context(), until)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range clients {
		client := w.client()
		all.Go(func() {
			wrong := 0
			for n := i; wrong < 20 && ctx.Err() == nil; n++ {
				status, text := simFetch(ctx, client, "http://"+o.host+o.page(i, n))
				if status == 200 || ctx.Err() != nil {
					continue
				}
				wrong++
				mu.Lock()
				odd = append(odd, fmt.Sprintf("%v: %d %.200s", time.Since(began), status, text))
				mu.Unlock()
				time.Sleep(time.Second)
			}
		})
	}
	all.Wait()
	time.Sleep(2 * o.trip) // what is still at the origin comes to an end
	return odd
}

// simFetch sends a GET whose client may leave at any moment.
func simFetch(ctx context.Context, c *http.Client, u string) (int, string) {
	r, err := http.NewRequestWithContext(ctx, "GET", u, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// simTweepy is what Tweepy does: one request after the other with one token, and after a
// refusal a sleep until the reset. The order of routes is that of simAbide.
func simTweepy(t *testing.T, c simCase) (result simResult) {
	t.Helper()
	o := c.origin()
	synctest.Test(t, func(*testing.T) {
		until := o.begin()
		began := time.Now()
		var all sync.WaitGroup
		for i := range min(c.clients, len(c.service.paths)) {
			all.Go(func() {
				for n := 0; time.Now().Before(until); {
					status, h, _ := simAsk(o, o.secrets[0], o.page(i, n))
					if status == 200 {
						n++
						continue
					}
					simSleep(untilReset(h, time.Now()), until)
				}
			})
		}
		all.Wait()
		result = o.result(c.clients, began)
	})
	return result
}

// simBlind uses the tokens in turn. A client that is refused sleeps for Retry-After, or a
// second.
func simBlind(t *testing.T, c simCase) (result simResult) {
	t.Helper()
	o := c.origin()
	synctest.Test(t, func(*testing.T) {
		until := o.begin()
		began := time.Now()
		var all sync.WaitGroup
		var next atomic.Int64
		for i := range c.clients {
			all.Go(func() {
				for n := 0; time.Now().Before(until); {
					secret := o.secrets[int(next.Add(1))%len(o.secrets)]
					status, h, _ := simAsk(o, secret, o.page(i, n))
					if status == 200 {
						n++
						continue
					}
					wait, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
					if err != nil {
						wait = 1
					}
					simSleep(time.Duration(wait*float64(time.Second)), until)
				}
			})
		}
		all.Wait()
		result = o.result(c.clients, began)
	})
	return result
}

func simSleep(d time.Duration, until time.Time) { time.Sleep(min(d, time.Until(until))) }

// untilReset is how long a client waits that believes the headers and its own clock:
// Retry-After, else until the reset and a second more.
func untilReset(h http.Header, now time.Time) time.Duration {
	if seconds, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		return time.Duration(seconds * float64(time.Second))
	}
	for _, name := range []string{"X-Rate-Limit-Reset", "X-Ratelimit-Reset", "Ratelimit-Reset"} {
		n, err := strconv.ParseInt(h.Get(name), 10, 64)
		if err != nil {
			continue
		}
		if n > 1e9 {
			n -= now.Unix()
		}
		return time.Duration(max(n, 0)+1) * time.Second
	}
	return time.Second
}

// TestTheUsualWaysWasteTokensOrAreRefused is what the table compares with.
func TestTheUsualWaysWasteTokensOrAreRefused(t *testing.T) {
	c := simCase{simX(), 3, 20, 50 * time.Millisecond, 0}
	tweepy, blind := simTweepy(t, c), simBlind(t, c)
	t.Logf("Tweepy's way: %d refused, %.0f %%; blind: %d refused, %.0f %%", tweepy.refused, 100*tweepy.share, blind.refused, 100*blind.share)
	if tweepy.refused < 3 || tweepy.share < .3 || tweepy.share > .34 {
		t.Errorf("Tweepy's way: %d refused, %v", tweepy.refused, tweepy.share)
	}
	if blind.refused < 1000 || blind.share < .98 {
		t.Errorf("blind: %d refused, %v", blind.refused, blind.share)
	}
	// By the clock of an origin that is behind, one wakes up too early each time.
	c.skew = -30 * time.Second
	if early := simTweepy(t, c); early.refused < 10*tweepy.refused {
		t.Errorf("Tweepy's way, half a minute ahead: %d refused", early.refused)
	}
}
