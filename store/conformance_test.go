package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
	"github.com/abide-proxy/abide/store/reference"
)

// constructors are the stores that have to answer as the reference does. One that can lose what
// it knows has a method Lose as well.
var constructors = map[string]func(t testing.TB, now func() time.Time) store.Store{
	"reference": func(_ testing.TB, now func() time.Time) store.Store { return reference.New(now) },
	"file":      openFileStore,
	"redis":     openRedis,
}

type loser interface{ Lose() }

// losing is a Redis that can lose what it knows, and says so as after a restart.
type losing struct {
	*store.Redis
	server *redistest.Server
}

func (r losing) Lose() {
	r.server.Do("FLUSHALL")
	r.server.Do("DEBUG", "CHANGE-REPL-ID")
}

func openRedis(t testing.TB, now func() time.Time) store.Store {
	server := redistest.Start(t, "--enable-debug-command", "yes")
	return losing{connect(t, addressOf(server), now), server}
}

// connect opens a Redis that has been there for some time.
func connect(t testing.TB, a *policy.Store, now func() time.Time) *store.Redis {
	t.Helper()
	open := func(now func() time.Time) *store.Redis {
		t.Helper()
		r, err := pulsing(t.Context(), a, now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	here := now
	if here == nil {
		here = time.Now
	}
	open(func() time.Time { return here().Add(-store.RecoveryTime) })
	return open(now)
}

// clock is a clock that goes when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// each runs a test for every store.
func each(t *testing.T, test func(t *testing.T, s store.Store, c *clock)) {
	t.Helper()
	of(t, slices.Sorted(maps.Keys(constructors)), test)
}

// fleets are those of the stores that divide a budget among instances.
var fleets = []string{"reference", "redis"}

// shared runs a test for each of those.
func shared(t *testing.T, test func(t *testing.T, s store.Store, c *clock)) {
	t.Helper()
	of(t, fleets, test)
}

func of(t *testing.T, names []string, test func(t *testing.T, s store.Store, c *clock)) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			s := constructors[name](t, c.now)
			defer s.Close()
			test(t, s, c)
		})
	}
}

// say is one Batch with one Ask.
func say(t testing.TB, s store.Store, generation, who string, a store.Ask) (store.Reply, store.Answer) {
	t.Helper()
	replies, err := s.Exchange(t.Context(), []store.Batch{{Site: "site", Instance: who, Generation: generation, Asks: []store.Ask{a}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(replies) != 1 || len(replies[0].Answers) != 1 {
		t.Fatalf("got %+v", replies)
	}
	return replies[0], replies[0].Answers[0]
}

func wantGranted(t testing.TB, a store.Answer, status store.Status, granted, remaining int64, holders int) {
	t.Helper()
	if a.Status != status || a.Granted != granted || a.Remaining != remaining || a.Holders != holders {
		t.Errorf("got status %d, granted %d, remaining %d, holders %d; want %d, %d, %d, %d",
			a.Status, a.Granted, a.Remaining, a.Holders, status, granted, remaining, holders)
	}
}

func fixed(seq uint64, want int64, holds ...store.Holding) store.Ask {
	return store.Ask{Key: "k", Kind: store.Fixed, Amount: 100, Window: time.Minute, Seq: seq, Want: want, Holds: holds}
}

func TestOneAloneGetsAllAndSeveralGetAPartOfWhatIsLeft(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		_, a := say(t, s, "", "a", fixed(1, 60))
		wantGranted(t, a, store.Done, 60, 40, 1)
		if a.Ends != time.Minute || a.Window != c.now().Unix()/60 {
			t.Errorf("window %d ends in %v", a.Window, a.Ends)
		}
		_, b := say(t, s, "", "b", fixed(1, 60))
		wantGranted(t, b, store.Done, 10, 30, 2)
		_, b = say(t, s, "", "c", fixed(1, 2))
		wantGranted(t, b, store.Done, 2, 28, 3)
	})
}

func TestWhatIsLeftIsGivenToTheLast(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, _ *clock) {
		say(t, s, "", "a", fixed(1, 50))
		held, rounds := int64(0), uint64(0)
		for held < 50 && rounds < 100 {
			rounds++
			r, a := say(t, s, "", "b", fixed(rounds*2, 0))
			w := a.Window
			_, a = say(t, s, r.Generation, "b", fixed(rounds*2+1, 50-held, store.Holding{Window: w, N: held}))
			if a.Granted <= held {
				t.Fatalf("after %d rounds %d is not more than %d", rounds, a.Granted, held)
			}
			held = a.Granted
		}
		if rounds > 30 {
			t.Errorf("it took %d rounds", rounds)
		}
	})
}

func TestLessThanTheLeastIsNotGranted(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, _ *clock) {
		say(t, s, "", "a", fixed(1, 96))
		ask := fixed(1, 5)
		ask.Least = 5
		_, a := say(t, s, "", "b", ask)
		wantGranted(t, a, store.Done, 0, 4, 2)
		ask.Seq, ask.Least = 2, 3
		_, a = say(t, s, "", "b", ask)
		wantGranted(t, a, store.Done, 3, 1, 2)
	})
}

func TestAnOldAskChangesNothing(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, _ *clock) {
		say(t, s, "", "a", fixed(1<<63, 60))
		for _, seq := range []uint64{1, 1<<63 - 1, 1 << 63} {
			_, old := say(t, s, "", "a", fixed(seq, 10))
			if old.Status != store.Stale {
				t.Errorf("sequence %d: status %d", seq, old.Status)
			}
		}
		_, a := say(t, s, "", "b", fixed(1, 0, store.Holding{}))
		wantGranted(t, a, store.Done, 0, 40, 2)
	})
}

func TestWhatIsHeldIsWrittenDownEvenWhenItIsTooMuch(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		w := c.now().Unix() / 60
		r, _ := say(t, s, "", "b", fixed(1, 0))
		_, a := say(t, s, r.Generation, "a", fixed(1, 60, store.Holding{Window: w, N: 130}, store.Holding{Window: w - 1, N: 5}))
		wantGranted(t, a, store.Done, 130, 0, 1)
		_, a = say(t, s, r.Generation, "a", fixed(2, 0, store.Holding{Window: w, N: 30}))
		wantGranted(t, a, store.Done, 30, 70, 1)
	})
}

func TestNothingIsGrantedToWhoMeansAnotherStore(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		holds := store.Holding{Window: c.now().Unix() / 60, N: 30}
		r, a := say(t, s, "another", "a", fixed(1, 60, holds))
		wantGranted(t, a, store.Foreign, 30, 70, 1)
		_, a = say(t, s, "", "a", fixed(2, 60, holds)) // holds what no store has granted
		wantGranted(t, a, store.Foreign, 30, 70, 1)
		_, a = say(t, s, r.Generation, "a", fixed(3, 60, holds))
		wantGranted(t, a, store.Done, 90, 10, 1)
		if l, can := s.(loser); can {
			l.Lose()
			again, a := say(t, s, r.Generation, "a", fixed(4, 60, holds))
			wantGranted(t, a, store.Foreign, 30, 70, 1)
			if again.Generation == r.Generation || again.Generation == "" {
				t.Errorf("the generation is %q after %q", again.Generation, r.Generation)
			}
		}
	})
}

func TestHalfOfTheNextWindowAtMostIsGrantedAhead(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		ask := fixed(1, 10)
		ask.Ahead = 80
		r, a := say(t, s, "", "a", ask)
		if later := []store.Holding{{Window: a.Window + 1, N: 50}}; !slices.Equal(a.Later, later) {
			t.Errorf("alone %v, want %v", a.Later, later)
		}
		_, b := say(t, s, r.Generation, "b", ask)
		if later := []store.Holding{{Window: a.Window + 1, N: 13}}; !slices.Equal(b.Later, later) { // a fourth of what is left, rounded up
			t.Errorf("the second has %v, want %v", b.Later, later)
		}
		c.forward(time.Minute)
		_, b = say(t, s, r.Generation, "b", fixed(2, 0, store.Holding{Window: a.Window + 1, N: 13}))
		wantGranted(t, b, store.Done, 13, 37, 2)
	})
}

func TestWhatIsGrantedAheadToManyIsNotMoreThanThereIs(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		total := int64(0)
		for i := range 40 {
			ask := fixed(1, 0)
			ask.Ahead = 80
			_, a := say(t, s, "", fmt.Sprint("instance", i), ask)
			for _, h := range a.Later {
				total += h.N
			}
		}
		c.forward(time.Minute)
		_, a := say(t, s, "", "last", fixed(1, 100))
		if total > 100 || a.Granted != min(a.Granted, 100-total) || a.Remaining != 100-total-a.Granted {
			t.Errorf("%d was granted ahead, and %+v then", total, a)
		}
	})
}

func TestARollingBudgetFreesASlotWhenAWindowHasPassedAfterIt(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		ask := store.Ask{Key: "k", Kind: store.Rolling, Amount: 100, Window: time.Minute, Slots: 6, Seq: 1, Want: 100}
		r, a := say(t, s, "", "a", ask)
		wantGranted(t, a, store.Done, 100, 0, 1)
		if a.Ends != 10*time.Second {
			t.Errorf("ends in %v", a.Ends)
		}
		ask.Holds = []store.Holding{{Window: a.Window, N: 100}}
		c.forward(70*time.Second - time.Microsecond)
		ask.Seq = 2
		_, a = say(t, s, r.Generation, "a", ask)
		wantGranted(t, a, store.Done, 0, 0, 1)
		c.forward(time.Microsecond)
		ask.Seq = 3
		_, a = say(t, s, r.Generation, "a", ask)
		wantGranted(t, a, store.Done, 100, 0, 1)
	})
}

func TestAQuotaGoesByTheEdgesOfWhoAsks(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		edge := c.now().Add(-time.Hour)
		ask := store.Ask{Key: "k", Kind: store.Quota, Amount: 100, Seq: 1, Want: 70, Ahead: 20}
		ask.Edges = []time.Time{edge.AddDate(0, -1, 0), edge, edge.AddDate(0, 1, 0), edge.AddDate(0, 2, 0)}
		_, a := say(t, s, "", "a", ask)
		wantGranted(t, a, store.Done, 70, 30, 1)
		if later := []store.Holding{{Window: ask.Edges[2].Unix(), N: 20}}; a.Window != edge.Unix() || !slices.Equal(a.Later, later) || a.Ends != ask.Edges[2].Sub(c.now()) {
			t.Errorf("got %+v", a)
		}
		ask.Seq, ask.Edges = 2, ask.Edges[2:]
		if _, a = say(t, s, "", "a", ask); a.Status != store.Failed {
			t.Errorf("now is in none of its windows, and its status is %d", a.Status)
		}
	})
}

func TestACountIsKeptByAFile(t *testing.T) {
	of(t, []string{"file", "reference"}, func(t *testing.T, s store.Store, _ *clock) {
		ask := store.Ask{Key: "k", Kind: store.Count, Seq: 1, Want: 1 << 45, State: []byte{0, 255, '\n', 128}, Joint: &store.Joint{Owned: true}}
		_, a := say(t, s, "another", "a", ask)
		if a.Status != store.Done || a.Granted != 1<<45 {
			t.Errorf("got %+v", a)
		}
		if _, a = say(t, s, "another", "a", ask); a.Status != store.Stale {
			t.Errorf("said again: %+v", a)
		}
	})
}

func TestAmountsAreExactUpToTwoToTheFiftieth(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, _ *clock) {
		ask := fixed(1, 1<<50-1)
		ask.Amount = 1 << 50
		_, a := say(t, s, "", "a", ask)
		wantGranted(t, a, store.Done, 1<<50-1, 1, 1)
		_, a = say(t, s, "", "b", ask)
		wantGranted(t, a, store.Done, 1, 0, 2)
	})
}

func TestTheClockOfABudgetDoesNotGoBack(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		_, a := say(t, s, "", "a", fixed(1, 60))
		c.forward(-900 * time.Millisecond) // as another server's clock may be
		_, b := say(t, s, "", "b", fixed(1, 60))
		wantGranted(t, b, store.Done, 10, 30, 2)
		if a.Window != b.Window || b.Ends != time.Minute {
			t.Errorf("got %+v after %+v", b, a)
		}
	})
}

func TestNewsGoesToEverybodyUntilItIsOver(t *testing.T) {
	each(t, func(t *testing.T, s store.Store, c *clock) {
		now := c.now()
		note := func(until time.Duration, n int64) store.Note {
			return store.Note{Key: "cooldown", Until: now.Add(until), N: n, Text: "429 \xff"}
		}
		for _, step := range []struct {
			said store.Note
			want []store.Note
		}{
			{note(time.Minute, 5), []store.Note{note(time.Minute, 5)}},
			{note(time.Second, 9), []store.Note{note(time.Minute, 5)}},                      // earlier
			{note(61*time.Second, 4), []store.Note{note(time.Minute, 5)}},                   // nearly the same, and smaller
			{note(61*time.Second, 5), []store.Note{note(time.Minute, 5)}},                   // the same
			{note(59*time.Second, 6), []store.Note{note(59*time.Second, 6)}},                // nearly the same, and larger
			{note(time.Hour, -1<<50), []store.Note{note(time.Hour, -1<<50)}},                // later
			{store.Note{Key: "x", Until: now, N: 9}, []store.Note{note(time.Hour, -1<<50)}}, // over
		} {
			r, err := s.Exchange(t.Context(), []store.Batch{{Site: "site", Instance: "a", Notes: []store.Note{step.said}}})
			if err != nil {
				t.Fatal(err)
			}
			if !sameNotes(r[0].Notes, step.want) {
				t.Errorf("after %v: got %v, want %v", step.said, r[0].Notes, step.want)
			}
		}
		c.forward(time.Hour)
		r, err := s.Exchange(t.Context(), []store.Batch{{Site: "site", Instance: "b"}, {Site: "other", Instance: "b"}})
		if err != nil || len(r) != 2 || len(r[0].Notes) != 0 {
			t.Errorf("got %v, %v", r, err)
		}
	})
}

func sameNotes(a, b []store.Note) bool {
	return slices.EqualFunc(a, b, func(a, b store.Note) bool {
		return a.Key == b.Key && a.Until.Equal(b.Until) && a.N == b.N && a.Text == b.Text
	})
}

func TestAPulseSaysHowManyAreThere(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		pulse := func(m store.Member) store.Pulse {
			t.Helper()
			p, err := s.Pulse(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		names := func() (list []string) {
			t.Helper()
			all, err := s.Members(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range all {
				list = append(list, m.ID+"="+m.Name+"@"+m.Seen.Sub(c.now()).String())
			}
			return list
		}
		began := pulse(store.Member{ID: "a", Name: "host: 1"}).Since
		pulse(store.Member{ID: "c", Lifetime: store.Lifetime(10_000)})
		c.forward(time.Second)
		p := pulse(store.Member{ID: "b", Name: "host 2"})
		if got := names(); p.Members != 3 || !reflect.DeepEqual(got, []string{"a=host: 1@-1s", "b=host 2@0s", "c=@-1s"}) {
			t.Errorf("got %v, %d", got, p.Members)
		}
		if p.Since-began != time.Second || !p.Now.Equal(c.now()) || p.Generation == "" {
			t.Errorf("got %+v", p)
		}
		c.forward(store.Lifetime(1) - time.Second + time.Microsecond)
		if p = pulse(store.Member{}); p.Members != 2 {
			t.Errorf("got %+v", p)
		}
		p = pulse(store.Member{ID: "b", Gone: true})
		if got := names(); p.Members != 1 || len(got) != 1 {
			t.Errorf("got %v, %d", got, p.Members)
		}
		c.forward(store.Lifetime(10_000))
		if p = pulse(store.Member{}); p.Members != 0 {
			t.Errorf("got %+v", p)
		}
		if r, _ := say(t, s, "", "b", fixed(1, 0)); r.Generation != p.Generation || !r.Now.Equal(p.Now) {
			t.Errorf("a reply is of %q, a pulse of %q", r.Generation, p.Generation)
		}
		if l, can := s.(loser); can {
			l.Lose()
			if after := pulse(store.Member{}); after.Generation == p.Generation || after.Since != 0 {
				t.Errorf("got %+v", after)
			}
		}
	})
}

func TestDocumentsAreKeptUntilTheirTime(t *testing.T) {
	each(t, func(t *testing.T, s store.Store, c *clock) {
		documents, can := s.(store.Documents)
		if !can {
			t.Fatal("it has no documents")
		}
		all := func() map[string][]byte {
			t.Helper()
			found, err := documents.All(t.Context(), "kind")
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		put := func(key string, value []byte, until time.Time) {
			t.Helper()
			before, err1 := s.Pulse(t.Context(), store.Member{})
			err := documents.Put(t.Context(), "kind", key, value, until)
			after, err2 := s.Pulse(t.Context(), store.Member{})
			if err := errors.Join(err, err1, err2); err != nil {
				t.Fatal(err)
			}
			if before.Documents == after.Documents {
				t.Error("the documents are the same after a change")
			}
		}
		put("a", []byte("1:\x00\xff"), time.Time{})
		put("b", []byte{}, c.now().Add(time.Minute))
		put("c", []byte("3"), time.Time{})
		put("c", nil, time.Time{})
		if got := all(); !reflect.DeepEqual(got, map[string][]byte{"a": []byte("1:\x00\xff"), "b": {}}) {
			t.Errorf("got %q", got)
		}
		c.forward(time.Minute)
		if got := all(); !reflect.DeepEqual(got, map[string][]byte{"a": []byte("1:\x00\xff")}) {
			t.Errorf("got %q", got)
		}
		if got, err := documents.All(t.Context(), "another"); len(got) != 0 || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestAClosedStoreSaysSo(t *testing.T) {
	each(t, func(t *testing.T, s store.Store, _ *clock) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Exchange(context.Background(), []store.Batch{{Site: "site"}}); err == nil {
			t.Error("it answers")
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing it again: %v", err)
		}
	})
}
