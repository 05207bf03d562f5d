package proxy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// simService is how a service limits requests, and what it announces.
type simService struct {
	name, host string
	paths      []string                 // what is asked for; %d is a page
	bucket     func(path string) string // which requests are counted together
	limits     func(bucket string) []simMeter
	counts     []int                         // indexes of the limits of which share takes the most used
	cost       func(*rand.Rand, int) float64 // of a request, for each limit; nil: 1
	say        func(simWord, http.Header) (status int, body string)
	span       time.Duration // a window, or some minutes for buckets
	windows    int           // how many of them
	most       int           // how many at once; zero is any number
	short      bool          // windows are shorter than some ways to the origin
	unsaid     bool          // what a request costs is not announced
}

// simWord is what a site can announce in one response.
type simWord struct {
	now    time.Time // by its own clock
	bucket string
	limits []simMeter
	costs  []float64
	served bool
	crowd  bool // refused because too many were there at once
}

// simOrigin is a simulated service at some distance from its clients.
type simOrigin struct {
	*simService
	trip, skew time.Duration
	secrets    []string

	mu     sync.Mutex
	chance *rand.Rand                       // guarded by mu, as all below
	meters map[string]map[string][]simMeter // :: bucket → secret → its limits
	there  map[string]int                   // :: secret → its requests that are there
	by     map[string]*simCount             // :: secret
	dead   func(secret string, now time.Time) bool
	until  time.Time // by the local clock; later requests count as nothing
	asked  int
	count  simCount
	times  []time.Time // of refusals, by the local clock
	left   []float64   // of each limit, after the last request
	whole  []time.Time // again, by the local clock
}

type simCount struct{ served, refused, rejected int }

func newSimOrigin(s *simService, tokens int, trip, skew time.Duration) *simOrigin {
	o := &simOrigin{
		simService: s, trip: trip, skew: skew,
		chance: rand.New(rand.NewPCG(uint64(trip), uint64(tokens))),
		meters: map[string]map[string][]simMeter{}, there: map[string]int{}, by: map[string]*simCount{},
	}
	for i := range tokens {
		secret := fmt.Sprintf("secret-%02d", i)
		o.secrets = append(o.secrets, secret)
		o.by[secret] = &simCount{}
	}
	return o
}

// lasts is the length of a run. Windows that the first request opens begin again only after
// the client has heard of their end. Where windows are short, a run has so many round trips
// that what is unknown at its begin does not count.
func (o *simOrigin) lasts() time.Duration {
	switch {
	case o.aligned():
		return time.Duration(o.windows) * o.span
	case o.short:
		return max(o.span, 600*o.trip)
	}
	return time.Duration(o.windows) * (o.span + o.slack())
}

func (o *simOrigin) slack() time.Duration { return 2*o.trip + 3*time.Second }

func (o *simOrigin) aligned() bool {
	w, ok := o.limits(o.bucket(o.paths[0]))[o.counts[0]].(*simWindow)
	return ok && w.aligned
}

// begin waits for a new window, and returns when counting ends. A bubble begins in the year
// 2000, when seconds since 1970 had one digit less than the parser expects.
func (o *simOrigin) begin() time.Time {
	if day := time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC); time.Now().Before(day) {
		elapse(time.Until(day))
	}
	if o.aligned() {
		now := time.Now().Add(o.skew)
		elapse(now.Truncate(o.span).Add(o.span).Sub(now))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = time.Now().Add(o.lasts())
	return o.until
}

// way is how long a request travels in one direction: some overtake others.
func (o *simOrigin) way() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Duration(float64(o.trip) / 2 * (0.8 + 0.4*o.chance.Float64()))
}

func (o *simOrigin) serve(rw http.ResponseWriter, r *http.Request) {
	elapse(o.way())
	secret := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	status, body := o.answer(secret, r.URL.Path, rw.Header())
	elapse(o.way())
	o.mu.Lock()
	o.there[secret]--
	o.mu.Unlock()
	rw.WriteHeader(status)
	rw.Write([]byte(body))
}

// answer decides on a request when it arrives.
func (o *simOrigin) answer(secret, path string, h http.Header) (int, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	local := time.Now()
	now := local.Add(o.skew)
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/json")
	o.there[secret]++
	o.asked++
	if !o.until.IsZero() && !local.Before(o.until) {
		return 200, "{}"
	}
	by := o.by[secret]
	if by == nil || o.dead != nil && o.dead(secret, local) {
		o.count.rejected++
		if by != nil {
			by.rejected++
		}
		h.Set("Www-Authenticate", "Bearer")
		return 401, `{"title":"Unauthorized","status":401}`
	}
	word := simWord{now: now, bucket: o.bucket(path), crowd: o.most > 0 && o.there[secret] > o.most}
	word.limits = o.of(word.bucket, secret)
	word.served = !word.crowd
	for i, m := range word.limits {
		cost := 1.0
		if o.cost != nil {
			cost = o.cost(o.chance, i)
		}
		word.costs = append(word.costs, cost)
		word.served = word.served && m.room(now, cost)
	}
	if word.served {
		for i, m := range word.limits {
			m.take(now, word.costs[i])
		}
		o.count.served++
		by.served++
	} else {
		o.count.refused++
		by.refused++
		o.times = append(o.times, local)
	}
	o.left, o.whole = o.left[:0], o.whole[:0]
	for _, m := range word.limits {
		o.left, o.whole = append(o.left, m.left(now)), append(o.whole, m.refill(now).Add(-o.skew))
	}
	return o.say(word, h)
}

// of is the limits of a credential. A bucket that one credential has asked for exists for
// all.
func (o *simOrigin) of(bucket, secret string) []simMeter {
	all := o.meters[bucket]
	if all == nil {
		all = map[string][]simMeter{}
		for _, secret := range o.secrets {
			all[secret] = o.limits(bucket)
		}
		o.meters[bucket] = all
	}
	return all[secret]
}

// page is the path that client i requests. Clients without a common limit do not wait for
// each other.
func (o *simOrigin) page(i, n int) string {
	path := o.paths[i%len(o.paths)]
	if strings.Contains(path, "%d") {
		return fmt.Sprintf(path, 1000+n%7)
	}
	return path
}

// share is how much of the allowance was used, or, where so few clients cannot use the whole
// allowance, how busy the clients were; of the bucket with the least.
func (o *simOrigin) share(clients int) float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.until.Add(o.skew)
	asking := map[string]int{} // :: bucket → clients
	for i := range clients {
		asking[o.bucket(o.page(i, 0))]++
	}
	least := 1.0
	for bucket, all := range o.meters {
		most := 0.0
		for _, which := range o.counts {
			var sum, used, allowed float64
			for _, limits := range all {
				sum += limits[which].sum()
				used += limits[which].used(now)
				allowed += limits[which].allowed(now, o.lasts(), o.slack())
			}
			busy := float64(asking[bucket]) * o.lasts().Seconds() / o.trip.Seconds() * o.mean(which)
			most = max(most, used/max(allowed, 1), sum/max(busy, 1))
		}
		least = min(least, most)
	}
	return least
}

func (o *simOrigin) mean(which int) float64 {
	if o.cost == nil {
		return 1
	}
	chance, sum := rand.New(rand.NewPCG(1, 1)), 0.0
	for range 1000 {
		sum += o.cost(chance, which)
	}
	return sum / 1000
}

func TestASimulatedWindowCountsWhatItAllows(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 7, 0, time.UTC)
	w := &simWindow{limit: 3, per: time.Minute}
	for i := range 3 {
		if !w.room(now.Add(time.Duration(i)*time.Second), 1) {
			t.Fatal(i)
		}
		w.take(now.Add(time.Duration(i)*time.Second), 1)
	}
	if w.room(now.Add(time.Minute-1), 1) || !w.room(now.Add(time.Minute), 1) {
		t.Error("a window is a minute from its first request")
	}
	w.take(now.Add(90*time.Second), 1)
	if used, allowed := w.used(now.Add(2*time.Minute)), w.allowed(now.Add(2*time.Minute), 100*time.Second, time.Second); used != 3 || allowed != 3 {
		t.Errorf("%v of %v", used, allowed)
	}
	a := &simWindow{limit: 1, per: time.Minute, aligned: true}
	a.take(now, 1)
	if a.room(now.Add(53*time.Second-1), 1) || !a.room(now.Add(53*time.Second), 1) {
		t.Error("a window is a minute of the clock")
	}
	b := &simBucket{size: 2, rate: 4}
	b.take(now, 1)
	b.take(now, 1)
	if b.room(now.Add(249*time.Millisecond), 1) || !b.room(now.Add(250*time.Millisecond), 1) {
		t.Error("a bucket refills all the time")
	}
	if until := b.until(now.Add(100*time.Millisecond), 1); math.Abs((until - 150*time.Millisecond).Seconds()) > 1e-6 {
		t.Error(until)
	}
}
