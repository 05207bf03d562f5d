package history

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/redistest"
)

// crew is four abides that share one limit in a real Redis and want twice as much as there is. Their accounts
// and the store are the real ones; time and the network between them are not.
type crew struct {
	*fleet.Fleet
	t       *testing.T
	spec    limit.Spec
	trace   *trace
	server  *redistest.Server
	replica *redistest.Server // nil until it is needed
	to      *store.Redis
	offset  time.Duration // of the store's clock
	slow    time.Duration // the longest time of a message
	only    int           // the abide that wants something, allOf or noneOf
}

// crewSize is how many they are, allOf each of them and noneOf none.
const crewSize, allOf, noneOf = 4, -1, -2

// crewBegin is some windows before midnight, so that faults are around the end of a day.
var crewBegin = time.Date(2026, time.March, 14, 23, 59, 35, 0, time.UTC)

// crewWindow is a window of the limits, but of those per day.
const crewWindow = 5 * time.Second

// storeOf connects to a server, whose clock is that of the test.
func (c *crew) storeOf(server *redistest.Server) *store.Redis {
	c.t.Helper()
	r, err := store.NewRedis(&policy.Store{Hosts: []string{server.Addr}}, c.clock)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { r.Close() })
	return r
}

func (c *crew) clock() time.Time { return c.Now().Add(c.offset) }

// switched leads to the server that is the master now.
type switched struct{ c *crew }

func (s switched) Exchange(ctx context.Context, b []store.Batch) ([]store.Reply, error) {
	return s.c.to.Exchange(ctx, b)
}

func (s switched) Pulse(ctx context.Context, m store.Member) (store.Pulse, error) {
	return s.c.to.Pulse(ctx, m)
}

func (s switched) Members(ctx context.Context) ([]store.Member, error) { return s.c.to.Members(ctx) }

func (s switched) Close() error { return nil }

func newCrew(t *testing.T, seed int64, spec limit.Spec, outage lease.Outage) *crew {
	t.Helper()
	c := &crew{t: t, spec: spec, server: redistest.Start(t), slow: time.Millisecond, only: allOf}
	c.Fleet = fleet.New(fleet.Options{
		Site: site, Seed: seed, Begin: crewBegin,
		Network: fleet.Network{
			Delay:   func(r *rand.Rand) time.Duration { return time.Duration(r.Int63n(int64(c.slow) + 1)) },
			Timeout: 2 * time.Second, Twice: 0.1, Late: 5 * time.Second,
		},
		Budgets: []fleet.Budget{{Key: key, Spec: spec, Outage: outage}},
		Taken:   func(t fleet.Take) { c.trace.took(t.At, t.N) },
	})
	c.trace = &trace{now: c.clock}
	c.to = c.storeOf(c.server)
	c.Store = &recorded{switched{c}, c.trace, 0}
	c.offset = -time.Minute // it has been there for some time
	if _, err := c.Store.Pulse(t.Context(), store.Member{}); err != nil {
		t.Fatal(err)
	}
	c.offset = 0
	c.Start(crewSize)
	random := rand.New(rand.NewSource(seed))
	rate := 2 * float64(spec.Amount) / crewWindow.Seconds() / crewSize
	if spec.As == limit.Quota {
		rate /= 5
	}
	for i := range crewSize {
		var next func()
		next = func() {
			if (c.only == allOf || c.only == i) && c.Waiting(i) < 20 {
				c.Request(i, fleet.Need{key: 1})
			}
			c.At(time.Duration(random.ExpFloat64()/rate*float64(time.Second)), next)
		}
		c.At(0, next)
	}
	return c
}

// want adds requests at an abide.
func (c *crew) want(who int, n int64) {
	for range n {
		c.Request(who, fleet.Need{key: 1})
	}
}

// remove removes keys of the server at once: what becomes of it by that is said.
func (c *crew) remove(what event, patterns ...any) {
	const script = "for _, p in ipairs(ARGV) do for _, k in ipairs(redis.call('KEYS', p)) do redis.call('DEL', k) end end return 1"
	c.trace.became(what, "", func() { c.server.Do(append([]any{"EVAL", script, 0}, patterns...)...) })
}

const budgetKeys, endsKey, lifeKey = "abide:{" + site + "}:*/*", "abide:{" + site + "}:ends", "abide:{fleet}:life"

// evict removes one key at random, as a server does that is full.
func (c *crew) evict() {
	all := c.server.Do("KEYS", "*").([]any)
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	victim, what := all[c.Rand.Intn(len(all))].(string), nothing
	switch {
	case victim == endsKey:
		what = forgets
	case victim == lifeKey:
		what = renews
	case strings.Contains(victim, "/"):
		what = evicts
	}
	if what == nothing {
		c.server.Do("DEL", victim)
		return
	}
	c.remove(what, victim)
}

// follow starts a replica. The first one gives the server another name for what it has.
func (c *crew) follow() {
	c.replica = redistest.Start(c.t)
	c.trace.became(renews, "", func() { c.replica.ReplicaOf(c.server) })
}

// part separates the replica: it has what is there by now, and nothing of what comes later.
func (c *crew) part() {
	c.trace.became(saves, "", func() {
		c.server.Do("WAIT", 1, 0)
		c.replica.Promote()
	})
}

// failOver has the replica take over.
func (c *crew) failOver() {
	c.trace.became(fails, "", func() {
		c.server.Kill()
		c.to, c.server = c.storeOf(c.replica), c.replica
	})
}

// fault is something that goes wrong in a fleet, from a time on. strict, share and open are by how many limits
// a window may have too much with that outage.
type fault struct {
	name                string
	strict, share, open float64
	clock               bool // the clock of the store is set, and with it where its windows are
	blind               bool // what the store has lost is not known, so no order of its operations is looked for
	do                  func(c *crew, from, lasts time.Duration)
}

// A part is what each abide has of a limit while the store is away, and rest what all others have.
const (
	part = 1.0 / crewSize
	rest = 1 - part
	all  = crewSize - 1.0
)

// amounts are the words for these in docs/fleet.md.
var amounts = map[float64]string{0: "0", part: "1 part", rest: "n−1 parts", 1: "1 limit", all: "n−1 limits"}

var faults = []fault{
	{name: "messages come twice and late, as in all other rows", do: func(*crew, time.Duration, time.Duration) {}},
	{name: "the store is slow", do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() { c.slow = 200 * time.Millisecond })
		c.At(from+lasts, func() { c.slow = time.Millisecond })
	}},
	{name: "the store is away", share: rest, open: all, do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() { c.Cut(true) })
		c.At(from+lasts, func() { c.Cut(false) })
	}},
	{name: "the store is away when one abide has spent what others believe to be left", share: rest, open: all, do: func(c *crew, from, lasts time.Duration) {
		begin := from.Truncate(crewWindow) + 2*crewWindow
		c.At(from, func() { c.only = noneOf })
		c.At(begin+200*time.Millisecond, func() {
			for i := range crewSize {
				c.want(i, 1)
			}
		})
		c.At(begin+1500*time.Millisecond, func() { c.want(0, c.spec.Amount) })
		c.At(begin+2500*time.Millisecond, func() {
			c.Cut(true)
			c.only = allOf
		})
		c.At(begin+2500*time.Millisecond+lasts, func() { c.Cut(false) })
	}},
	{name: "the list of abides is lost, and then the store is away", share: rest, open: all, do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() { c.server.Do("DEL", "abide:{fleet}:instances") })
		c.At(from+time.Duration(c.Rand.Int63n(int64(2*time.Second))), func() { c.Cut(true) })
		c.At(from+2*time.Second+lasts, func() { c.Cut(false) })
	}},
	{name: "one abide is cut off", share: part, open: 1, do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() { c.Part(0, true, true) })
		c.At(from+lasts, func() { c.Part(0, false, false) })
	}},
	{name: "answers to one abide are lost", share: part, open: 1, do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() { c.Part(0, false, true) })
		c.At(from+lasts, func() { c.Part(0, false, false) })
	}},
	{name: "the clock of the store is ahead for a while", clock: true, do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() { c.offset = 12 * time.Second })
		c.At(from+lasts/2, func() { c.offset = 0 })
	}},
	{name: "the clock of the store is behind for a while", clock: true, do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() { c.offset = -7 * time.Second })
		c.At(from+lasts/2, func() { c.offset = 0 })
	}},
	{name: "the clock of the store is set ahead", clock: true, do: func(c *crew, from, _ time.Duration) {
		c.At(from, func() { c.offset = 8 * time.Second })
	}},
	{name: "the clock of the store is set back", clock: true, do: func(c *crew, from, _ time.Duration) {
		c.At(from, func() { c.offset = -8 * time.Second })
	}},
	{name: "a replica that lags takes over", open: all, do: func(c *crew, from, _ time.Duration) {
		c.follow()
		c.At(from-2*time.Second, c.part)
		c.At(from, c.failOver)
	}},
	{name: "a replica whose clock is behind takes over", open: all, clock: true, do: func(c *crew, from, _ time.Duration) {
		c.follow()
		c.At(from-2*time.Second, c.part)
		c.At(from, func() {
			c.failOver()
			c.offset = -3 * time.Second
		})
	}},
	{name: "everything is lost", open: all, do: func(c *crew, from, _ time.Duration) {
		c.At(from, func() { c.trace.became(loses, "", func() { c.server.Do("FLUSHALL") }) })
	}},
	{name: "the store is started again, empty", share: rest, open: all, do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() {
			c.Cut(true)
			c.trace.became(loses, "", c.server.Restart)
		})
		c.At(from+lasts, func() { c.Cut(false) })
	}},
	{name: "the key of a limit is lost", do: func(c *crew, from, _ time.Duration) {
		c.At(from, func() { c.remove(evicts, budgetKeys) })
	}},
	{name: "both keys of a site are lost", do: func(c *crew, from, _ time.Duration) {
		c.At(from, func() { c.remove(removes, budgetKeys, endsKey) })
	}},
	{name: "both keys of a site are lost while its abides are idle", strict: 1, share: 1, open: 1, do: func(c *crew, from, _ time.Duration) {
		c.only = noneOf
		begin := from.Truncate(crewWindow) + crewWindow
		c.At(begin, func() { c.want(0, c.spec.Amount) })
		c.At(begin+3*time.Second, func() {
			c.remove(removes, budgetKeys, endsKey)
			c.want(1, c.spec.Amount)
		})
	}},
	{name: "keys are lost at random", open: all, do: func(c *crew, from, lasts time.Duration) {
		for at := time.Duration(0); at < lasts/2; at += 300 * time.Millisecond {
			c.At(from+at, c.evict)
		}
	}},
	{name: "the store is full and evicts", share: rest, open: all, blind: true, do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() {
			for i := range 200 {
				c.server.Do("SET", fmt.Sprint("filler", i), strings.Repeat("x", 10_000))
			}
			c.server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
			c.server.Do("CONFIG", "SET", "maxmemory", "1mb")
		})
		c.At(from+lasts, func() { c.server.Do("CONFIG", "SET", "maxmemory", "0") })
	}},
	{name: "an abide is killed", do: func(c *crew, from, _ time.Duration) {
		c.At(from, func() { c.Crash(0) })
	}},
	{name: "an abide stands still", do: func(c *crew, from, lasts time.Duration) {
		c.At(from, func() { c.Freeze(0, lasts) })
	}},
}

// The table in the guide has each of them, and this test in its row.
func TestTheGuideSaysWhatEachFaultCosts(t *testing.T) {
	guide, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		row := fmt.Sprintf("\n| %s | %s | %s | %s | `TestHistoriesOfAFleetWithFaults`", f.name, amounts[f.strict], amounts[f.share], amounts[f.open])
		if !strings.Contains(string(guide), row) {
			t.Errorf("docs/fleet.md has no row%s", row)
		}
	}
}

// Whatever becomes of a Redis: what it answers is what a store would that does one thing after the other, and
// no window has more than docs/fleet.md says.
func TestHistoriesOfAFleetWithFaults(t *testing.T) {
	kinds := []limit.Spec{
		{As: limit.Fixed, Amount: 50, Window: crewWindow},
		{As: limit.Rolling, Amount: 50, Window: crewWindow},
		{As: limit.Quota, Amount: 50, Period: limit.Day},
		{As: limit.Bucket, Amount: 50, Window: crewWindow, Burst: 20}, // its promise is about all of the past, so it is checked with strict
	}
	for row, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for outage, bound := range map[lease.Outage]float64{lease.Strict: f.strict, lease.Share: f.share, lease.Open: f.open} {
				worst, used := map[limit.As]int64{}, int64(0)
				for seed := range int64(histories(2)) {
					spec := kinds[(int64(row)+seed)%int64(len(kinds))]
					if spec.As == limit.Bucket && bound > 0 {
						continue
					}
					c := newCrew(t, seed, spec, outage)
					from := 20*time.Second + time.Duration(c.Rand.Int63n(int64(5*time.Second)))
					f.do(c, from, time.Second+time.Duration(c.Rand.Int63n(int64(14*time.Second))))
					c.Run(50 * time.Second)
					if !f.blind {
						c.trace.linear(t)
					}
					p := promise{spec, 5 * time.Millisecond}
					over, which := p.over(c.trace.uses)
					if f.clock && spec.Traits().Returns == limit.AtEdges { // wherever windows begin, no two of them in a row have more than twice as much
						over, which = p.within(c.trace.uses, spec.Length())-2*spec.Amount, "in any time as long as a window"
					}
					if worst[spec.As] = max(worst[spec.As], over); float64(over) > bound*float64(spec.Amount) {
						t.Errorf("seed %d, %s, %s: %d over, and %.1f may be: %s", seed, spec.As, outage, over, bound*float64(spec.Amount), which)
					}
					used += total(c.trace.uses)
				}
				t.Logf("%s: at most %v over, %d used", outage, worst, used)
			}
		})
	}
}
