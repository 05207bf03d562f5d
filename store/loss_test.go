package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
)

// Evict removes the budgets of a site, as a server that is full does, or DEL.
func (r losing) Evict(site string) {
	for _, key := range r.server.Do("KEYS", "abide:{"+site+"}:*/*").([]any) {
		r.server.Do("DEL", key)
	}
}

type evicter interface{ Evict(site string) }

// fifty is 50 per 20 seconds.
func fifty(seq uint64, want int64, holds ...store.Holding) store.Ask {
	return store.Ask{Key: "k", Kind: store.Fixed, Amount: 50, Window: 20 * time.Second, Seq: seq, Want: want, Holds: holds}
}

func TestAClockThatGoesBackOpensNoWindowAgain(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		r, a := say(t, s, "", "a", fifty(1, 50))
		wantGranted(t, a, store.Done, 50, 0, 1)
		before := c.now()
		c.forward(-15 * time.Second) // into the window before
		again, b := say(t, s, r.Generation, "b", fifty(1, 50))
		wantGranted(t, b, store.Done, 0, 0, 2)
		if b.Window != a.Window || !b.Now.Equal(before) || !again.Now.Equal(c.now()) {
			t.Errorf("got %+v", again)
		}
		// The budget goes on when the clock is where it was.
		c.forward(35 * time.Second)
		_, b = say(t, s, r.Generation, "b", fifty(2, 50))
		wantGranted(t, b, store.Done, 13, 37, 2)
	})
}

func TestAClockThatJumpsAheadAndBackGrantsNoWindowTwice(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		_, a := say(t, s, "", "a", fifty(1, 50))
		first := a.Window
		c.forward(40 * time.Second)
		r, a := say(t, s, "", "b", fifty(1, 30))
		wantGranted(t, a, store.Done, 13, 37, 2)
		c.forward(2*time.Second - 40*time.Second)
		granted := int64(13)
		for seq := uint64(2); seq < 70; seq++ {
			_, a = say(t, s, r.Generation, "b", fifty(seq, 5, store.Holding{Window: first + 2, N: granted}))
			if a.Window < first+2 || a.Granted > 50 {
				t.Fatalf("got %+v", a)
			}
			if a.Window > first+2 {
				break
			}
			granted = a.Granted
			c.forward(time.Second)
		}
		if a.Window != first+3 || a.Granted != 5 {
			t.Errorf("it does not go on: %+v", a)
		}
	})
}

func TestWhatWasForgottenByAClockStaysSpent(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, _ *clock) {
		r, a := say(t, s, "", "a", fifty(1, 40))
		ask := fifty(2, 50)
		ask.Past = a.Window
		_, a = say(t, s, r.Generation, "a", ask)
		wantGranted(t, a, store.Done, 10, 0, 1)
		ask = fifty(3, 50, store.Holding{Window: a.Window, N: 4}) // and what is said of later windows is all
		_, a = say(t, s, r.Generation, "a", ask)
		wantGranted(t, a, store.Done, 10, 0, 1)
		ask = fifty(1, 50)
		ask.Past = 1<<63 - 1
		_, a = say(t, s, r.Generation, "b", ask)
		wantGranted(t, a, store.Done, 0, 0, 2)
	})
}

// lostAfter is that somebody has 40 of 50, the budget is lost, and a newcomer comes
// first.
func lostAfter(t *testing.T, s store.Store, c *clock, lose func()) {
	t.Helper()
	r, a := say(t, s, "", "a", fifty(1, 40))
	lose()
	fresh, b := say(t, s, "", "b", fifty(1, 50))
	if b.Status != store.Foreign || b.Granted != 0 || b.Recovery <= 0 || b.Recovery > store.RecoveryTime || b.Birth == a.Birth || b.Birth == "" {
		t.Fatalf("a newcomer is told %+v", b)
	}
	c.forward(time.Second)
	ask := fifty(2, 10, store.Holding{Window: a.Window, N: 40})
	ask.Birth, ask.Seen = a.Birth, a.Now
	if _, a = say(t, s, r.Generation, "a", ask); a.Status != store.Foreign || a.Granted != 40 || a.Birth != b.Birth || a.Recovery != b.Recovery-time.Second {
		t.Errorf("who has something is told %+v", a)
	}
	c.forward(a.Recovery)
	if _, b = say(t, s, fresh.Generation, "b", fifty(2, 50)); b.Status != store.Done || b.Granted+b.Remaining != 10 || b.Granted == 0 || b.Recovery != 0 {
		t.Errorf("afterwards: %+v", b)
	}
}

func TestABudgetThatIsLostIsNotSpentTwice(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		lostAfter(t, s, c, func() { s.(evicter).Evict("site") })
	})
}

func TestNobodyIsGrantedAnythingAtOnceAfterEverythingIsLost(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		lostAfter(t, s, c, s.(loser).Lose)
	})
	t.Run("FLUSHALL", func(t *testing.T) {
		c := newClock()
		s := openRedis(t, c.now).(losing)
		lostAfter(t, s, c, func() { s.server.Do("FLUSHALL") })
	})
}

// What instances have spent that have ended since is known to those who have heard of it.
func TestWhatEndedInstancesHaveSpentIsRememberedAfterALoss(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		r, ended := say(t, s, "", "ended", fifty(1, 20))
		_, b := say(t, s, r.Generation, "b", fifty(1, 5))
		_, a := say(t, s, r.Generation, "a", fifty(1, 10))
		wantGranted(t, ended, store.Done, 20, 30, 1)
		spent := 50 - a.Remaining
		s.(evicter).Evict("site")
		// Who has heard less comes first.
		ask := fifty(2, 50, store.Holding{Window: b.Window, N: b.Granted})
		ask.Birth, ask.Seen, ask.Counted = b.Birth, b.Now, store.Holding{Window: b.Window, N: 50 - b.Remaining}
		if _, again := say(t, s, r.Generation, "b", ask); again.Status != store.Foreign || again.Remaining != b.Remaining {
			t.Fatalf("got %+v", again)
		}
		ask = fifty(3, 10, store.Holding{Window: a.Window, N: a.Granted})
		ask.Birth, ask.Seen, ask.Counted = a.Birth, a.Now, store.Holding{Window: a.Window, N: spent}
		ask.Holds[0].N, ask.Held = a.Granted-1, a.Granted // it gives one back, which counts until it is said again
		for range 2 {                                     // and its answer is lost
			_, again := say(t, s, r.Generation, "a", ask)
			if again.Status != store.Foreign || again.Remaining != 50-spent {
				t.Errorf("got %+v, of which %d are spent", again, spent)
			}
			ask.Seq++
			a.Birth, a.Now = again.Birth, again.Now
		}
		c.forward(store.RecoveryTime)
		ask = fifty(9, 2, store.Holding{Window: a.Window, N: a.Granted})
		ask.Birth, ask.Seen = a.Birth, a.Now
		_, again := say(t, s, r.Generation, "a", ask)
		wantGranted(t, again, store.Done, a.Granted+2, 50-spent-2, 2)
		// What is given back is there again, but not what the ended one had.
		ask = fifty(10, 0)
		ask.Birth, ask.Seen = again.Birth, again.Now
		if _, again = say(t, s, r.Generation, "a", ask); again.Remaining != 50-spent+a.Granted {
			t.Errorf("after all was given back: %+v", again)
		}
		c.forward(20 * time.Second)
		if _, next := say(t, s, "", "d", fifty(1, 0)); next.Status != store.Done || next.Remaining != 50 {
			t.Errorf("in the next window: %+v", next)
		}
	})
}

func TestABudgetThatHasEndedIsNotMissed(t *testing.T) {
	shared(t, func(t *testing.T, s store.Store, c *clock) {
		_, a := say(t, s, "", "a", fifty(1, 40))
		c.forward(10 * time.Minute)
		s.(evicter).Evict("site")
		r, b := say(t, s, "", "b", fifty(1, 50))
		wantGranted(t, b, store.Done, 50, 0, 1)
		ask := fifty(2, 10)
		ask.Birth, ask.Seen = a.Birth, a.Now
		_, a = say(t, s, r.Generation, "a", ask)
		wantGranted(t, a, store.Done, 0, 0, 2)
	})
}

// Who names a birth that nobody else remembers, or a later time than is written down,
// knows of a loss.
func TestWhoHasHeardMoreThanIsWrittenDownKnowsOfALoss(t *testing.T) {
	for name, lose := range map[string]func(s losing, old string){
		"all of the site": func(s losing, _ string) {
			for _, key := range s.server.Do("KEYS", "abide:{site}:*").([]any) {
				s.server.Do("DEL", key)
			}
		},
		"an old copy": func(s losing, old string) {
			s.server.Do("RESTORE", "abide:{site}:f/20000000/k", "0", old, "REPLACE")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			s := openRedis(t, c.now).(losing)
			r, _ := say(t, s, "", "a", fifty(1, 0))
			old := s.server.Do("DUMP", "abide:{site}:f/20000000/k").(string)
			c.forward(time.Second)
			_, a := say(t, s, r.Generation, "a", fifty(2, 30))
			wantGranted(t, a, store.Done, 30, 20, 1)
			lose(s, old)
			ask := fifty(3, 10, store.Holding{Window: a.Window, N: 30})
			ask.Birth, ask.Seen = a.Birth, a.Now
			_, b := say(t, s, r.Generation, "a", ask)
			if b.Status != store.Foreign || b.Granted != 30 || b.Remaining != 20 || b.Birth == a.Birth {
				t.Errorf("got %+v", b)
			}
			c.forward(store.RecoveryTime)
			ask.Seq, ask.Birth, ask.Seen = 4, b.Birth, b.Now
			_, a = say(t, s, r.Generation, "a", ask)
			wantGranted(t, a, store.Done, 40, 10, 1)
		})
	}
}

// A replica that takes over may lack the last that was written, and its clock may be
// behind.
func TestAReplicaWhoseClockIsBehindGrantsNothingTwice(t *testing.T) {
	c := newClock()
	s := openRedis(t, c.now).(losing)
	r, _ := say(t, s, "", "b", fifty(1, 0))
	old := s.server.Do("DUMP", "abide:{site}:f/20000000/k").(string)
	_, a := say(t, s, r.Generation, "a", fifty(1, 40))
	s.server.Do("RESTORE", "abide:{site}:f/20000000/k", "0", old, "REPLACE")
	s.server.Do("DEBUG", "CHANGE-REPL-ID")
	c.forward(-15 * time.Second)
	if _, b := say(t, s, "", "b", fifty(2, 50)); b.Status != store.Foreign || b.Granted != 0 {
		t.Errorf("got %+v", b)
	}
	ask := fifty(2, 10, store.Holding{Window: a.Window, N: 40})
	ask.Birth, ask.Seen = a.Birth, a.Now
	again, a := say(t, s, r.Generation, "a", ask)
	if a.Status != store.Foreign || a.Granted != 40 || again.Generation == r.Generation {
		t.Errorf("got %+v", a)
	}
	c.forward(a.Recovery)
	_, b := say(t, s, again.Generation, "b", fifty(3, 50))
	if b.Window != a.Window || b.Status != store.Done || b.Granted+b.Remaining != 10 {
		t.Errorf("got %+v", b)
	}
}

func TestALossIsToldEverybodyAtOnce(t *testing.T) {
	c := newClock()
	s := openRedis(t, c.now).(losing)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan store.News, 100), make(chan error, 1)
	go func() { ended <- s.Listen(ctx, func(n store.News) { heard <- n }) }()
	defer func() {
		cancel()
		<-ended
	}()
	until := func(want store.News, do func(seq uint64)) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond) // until the listener is there
		defer tick.Stop()
		for seq := uint64(1); seq < 1000; seq++ {
			do(seq)
			select {
			case n := <-heard:
				if n.Site == want.Site && n.Lost == want.Lost && !n.Began {
					return
				}
			case <-tick.C:
			}
		}
		t.Errorf("nobody heard of %+v", want)
	}
	until(store.News{Site: "site", Lost: true}, func(seq uint64) {
		say(t, s, "", "a", fifty(seq, 1))
		s.Evict("site")
	})
	until(store.News{Lost: true}, func(seq uint64) {
		s.server.Do("FLUSHALL")
		say(t, s, "", "a", fifty(seq, 1))
	})
}

// A server on which nobody may run INFO works; what is lost is known by what is gone.
func TestAServerThatDoesNotSayWhatItIsWorks(t *testing.T) {
	server := redistest.Start(t)
	alone, _, _ := strings.Cut(store.Permissions, ",")
	server.Do(permitted(strings.Replace(alone, "+info ", "", 1))...)
	s := connect(t, loginAt(server, "abide", "secret"), nil)
	everything(t, s)
	r, a := say(t, s, "", "a", fixed(1, 60))
	wantGranted(t, a, store.Done, 60, 40, 1)
	server.Do("FLUSHALL")
	again, b := say(t, s, r.Generation, "b", fixed(1, 60))
	if b.Status != store.Foreign || again.Generation == r.Generation {
		t.Errorf("got %+v", again)
	}
}

// However many use a budget, an Ask reads the same.
func TestAnAskDoesNotReadWhatAllOthersHave(t *testing.T) {
	server := redistest.Start(t)
	s := connect(t, addressOf(server), nil)
	ask := func(who int, seq uint64) {
		t.Helper()
		if _, err := s.Exchange(t.Context(), []store.Batch{{Site: "site", Instance: fmt.Sprint("instance", who), Asks: []store.Ask{
			{Key: "k", Kind: store.Fixed, Amount: 1 << 40, Window: 24 * time.Hour, Seq: seq, Want: 10},
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	const instances = 300
	for i := range instances {
		ask(i, 1)
	}
	server.Do("CONFIG", "RESETSTAT")
	for i := range instances {
		ask(i, 2)
	}
	text := server.Do("INFO", "commandstats").(string)
	// The only one is of the site's notes.
	if want := fmt.Sprintf("cmdstat_hgetall:calls=%d,", instances); !strings.Contains(text, want) {
		t.Errorf("not %s in %s", want, text)
	}
}

// Entries of instances that are gone leave.
func TestInstancesThatAreGoneLeaveABudget(t *testing.T) {
	server := redistest.Start(t)
	c := newClock()
	s := connect(t, addressOf(server), c.now)
	for i := range 2000 {
		say(t, s, "", fmt.Sprint("instance", i), fifty(1, 1))
		c.forward(time.Second)
	}
	if n := server.Do("HLEN", "abide:{site}:f/20000000/k").(int64); n > 200 {
		t.Errorf("%d fields are kept", n)
	}
}

func TestAServerThatRemovesWhatCountsIsWarnedOf(t *testing.T) {
	server := redistest.Start(t)
	s := connect(t, addressOf(server), nil)
	if list := s.Warnings(t.Context()); len(list) != 0 {
		t.Errorf("got %q", list)
	}
	server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if list := s.Warnings(t.Context()); len(list) != 1 || !strings.Contains(list[0], "allkeys-lru") || !strings.Contains(list[0], "noeviction") {
		t.Errorf("got %q", list)
	}
	alone, _, _ := strings.Cut(store.Permissions, ",")
	server.Do(permitted(strings.Replace(alone, "+info ", "", 1))...)
	s = connect(t, loginAt(server, "abide", "secret"), nil)
	if list := s.Warnings(t.Context()); len(list) != 1 || !strings.Contains(list[0], "+info") {
		t.Errorf("got %q", list)
	}
	server.Do("ACL", "SETUSER", "abide", "+config|get")
	if list := s.Warnings(t.Context()); len(list) != 2 {
		t.Errorf("got %q", list)
	}
}
