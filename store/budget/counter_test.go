package budget

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// elapse lets time pass in a bubble, whose clock begins in the year 2000. Elsewhere it
// is no way to wait.
func elapse(d time.Duration) {
	if time.Now().Year() >= 2026 {
		panic("elapse is for bubbles")
	}
	time.Sleep(d)
}

// plain is a configuration in which keys are the same everywhere.
type plain struct{}

func (plain) Stable(_, key string) string      { return key }
func (plain) Local(_, _, name string) []string { return []string{name} }
func (plain) Lasting(string) bool              { return true }
func (plain) HasLimit(string, string) bool     { return true }
func (plain) Owned(string) bool                { return false }

// counter is a Keeper with a gate of which each site has one limit.
type counter struct {
	t      *testing.T
	keeper *Keeper
	gate   *queue.Gate
	need   queue.Limit
	heard  func(site string, notes []store.Note) // nil: nothing hears them
	stop   func()

	mu      sync.Mutex
	text    bytes.Buffer     // the log
	lent    map[string]int64 // :: outage rule →
	outages int
	losses  map[string]int
}

func (c *counter) Heard(site string, notes []store.Note) {
	if c.heard != nil {
		c.heard(site, notes)
	}
}
func (c *counter) Unmet(site string, notes []store.Note) {}
func (c *counter) Listens(*time.Time)                    {}

func (c *counter) StoreOperation(string, bool, time.Duration) {}

func (c *counter) StoreLent(outage string, units int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lent[outage] += units
}

func (c *counter) StoreLost(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses[what]++
}

func (c *counter) StoreAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outages++
}

func (c *counter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *counter) logged() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

func newCounter(t *testing.T, s store.Store, shared bool, instance string, spec limit.Spec, outage lease.Outage) *counter {
	t.Helper()
	c := startCounter(t, s, shared, instance, spec, outage)
	synctest.Wait()
	return c
}

func startCounter(t *testing.T, s store.Store, shared bool, instance string, spec limit.Spec, outage lease.Outage) *counter {
	c := &counter{t: t, lent: map[string]int64{}, losses: map[string]int{}}
	c.gate = queue.NewGate(queue.Bounds{}, nil)
	log := logrus.New()
	log.SetOutput(c)
	c.keeper = New(Options{
		Store: s, Shared: shared, Self: store.Member{ID: instance, Name: instance}, Gate: c.gate,
		Names: plain{}, Sites: plain{}, Changed: func() {}, Metrics: c, Log: log,
	})
	c.need = queue.Limit{Name: "requests", Spec: &spec, N: 1, Source: meterSource{c.keeper, outage}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.keeper.Run(ctx, c) }()
	c.stop = sync.OnceFunc(func() { cancel(); <-done })
	return c
}

// take is one request. It tells whether it was sent, and for how long it waited.
func (c *counter) take(site string, patience time.Duration) (sent bool, waited time.Duration) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	p, err := c.gate.Wait(ctx, queue.Request{Site: site, Limits: [][]queue.Limit{{c.need}}})
	if err != nil {
		return false, time.Since(began)
	}
	p.Sent()
	p.Finish(queue.Result{Outcome: limit.Success})
	return true, time.Since(began)
}

var perMinute = limit.Spec{As: limit.Fixed, Amount: 100, Window: time.Minute}
