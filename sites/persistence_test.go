package sites

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
)

// memory are documents that count what is written.
type memory struct {
	Documents
	all  map[string]map[string]store.Document // :: kind → key →
	puts int                                  // of keys
}

func (m *memory) PutAll(_ context.Context, kind string, all map[string]store.Document) error {
	if m.all[kind] == nil {
		m.all[kind] = map[string]store.Document{}
	}
	m.puts += len(all)
	maps.Copy(m.all[kind], all)
	return nil
}

// alike are names that are the same in every process.
type alike struct{}

func (alike) Stable(_, key string) string      { return key }
func (alike) Local(_, _, name string) []string { return []string{name} }
func (alike) Lasting(string) bool              { return true }
func newGate() *queue.Gate                     { return queue.NewGate(queue.Bounds{}, nil) }

// What is known of a site that nothing changes for long is not forgotten, and not written
// over and over.
func TestWhatDoesNotChangeIsWrittenAgainBeforeItsTimeIsOver(t *testing.T) {
	to := &memory{all: map[string]map[string]store.Document{}}
	p := NewPersistence(to, func(error) {})
	sites := New(Options{Persistence: p, Names: alike{}})
	sites.KeepFrom(newGate())
	p.Add(Source{Kind: "other", Find: func(now time.Time, to Found) { to.Add("a", []byte("b"), now.Add(lasting)) }})
	site := sites.Open("site.test")
	c, _ := site.Class("GET", "", "/", 0)
	site.learn(&Answer{At: day0, Class: c, Budget: "", Sent: day0, Lesson: &learn.Lesson{Limits: []learn.Limit{{Bucket: "b", Remaining: learn.Amount{Known: true, N: 9}}}}})
	for _, step := range []struct {
		after time.Duration
		puts  int
	}{{0, 2}, {time.Hour, 0}, {lasting/2 - time.Hour, 0}, {lasting/2 + time.Hour, 2}, {lasting/2 + 2*time.Hour, 0}} {
		to.puts = 0
		if p.write(t.Context(), day0.Add(step.after), true); to.puts != step.puts {
			t.Errorf("after %v %d documents are written", step.after, to.puts)
		}
	}
	if len(to.all[kindOfRoutes]) != 1 || len(to.all["other"]) != 1 {
		t.Errorf("%v", to.all)
	}
}

// crowd are documents of very many hosts.
type crowd struct{ Documents }

func (crowd) All(_ context.Context, kind string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for n := range mostStored + 10 {
		all[fmt.Sprint(kind, n)] = nil
	}
	return all, nil
}

func TestWhatIsReadOfVeryManyHostsIsBounded(t *testing.T) {
	p := NewPersistence(crowd{}, nil)
	if err := p.Read(t.Context(), "token"); err != nil {
		t.Fatal(err)
	}
	for kind, read := range p.read {
		want := mostStored
		if kind != kindOfLedger && kind != kindOfRoutes {
			want += 10 // cooldowns and tokens are never left out
		}
		if len(read.all) != want {
			t.Errorf("of the kind %s %d are read", kind, len(read.all))
		}
	}
}

// TestSavedKeysThatNameNoLimitAreNotShown: a damaged file has them, or one of another version.
func TestSavedKeysThatNameNoLimitAreNotShown(t *testing.T) {
	p := NewPersistence(crowd{}, nil)
	if err := p.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	New(Options{Persistence: p, Names: alike{}}).VisitSavedLimits(day0, func(l SavedLimit) { t.Errorf("%v is shown", l) })
}

// slow are documents that are read slowly.
type slow struct{ Documents }

func (slow) All(ctx context.Context, kind string) (map[string][]byte, error) {
	select {
	case <-time.After(12 * time.Second):
		return map[string][]byte{"key": []byte(kind)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestASlowDiskLosesNothingThatWasLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPersistence(slow{}, nil)
		if err := p.Read(t.Context(), "token"); err != nil || string(p.Take("token", "key")) != "token" {
			t.Error(err)
		}
	})
}

func TestTheCooldownsThatLastLongestAreKept(t *testing.T) {
	const hosts = mostStored + 1000
	began := time.Now()
	cooling := &cooldowns{gate: newGate(), names: alike{}}
	until := func(n int) time.Time { return began.Add(time.Hour + time.Duration(n*7919%hosts)*time.Second) }
	for n := range hosts {
		cooling.gate.Cool(fmt.Sprint("host", n), queue.Scope{}, until(n), "Retry-After")
	}
	all := Found{}
	cooling.find(began, all)
	if len(all) != mostStored || len(cooling.written) != mostStored {
		t.Fatalf("%d of %d are kept", len(all), hosts)
	}
	for _, one := range all {
		if one.Until.Before(began.Add(time.Hour + (hosts-mostStored)*time.Second)) {
			t.Fatalf("a cooldown is kept that ends at %v, though %d end later", one.Until, mostStored)
		}
	}
}
