package chaos

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("seeds", 20, "number of seeds")
	first = flag.Uint64("first", 1, "the first seed")
	known = flag.Bool("known", false, "report also that several abides send a few requests more than a limit while their store fails")
)

func TestChaos(t *testing.T) {
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				problems := w.run()
				if len(problems) > 0 {
					t.Errorf("seed %d: %d faults:\n%s\n%s", seed, len(problems), strings.Join(problems[:min(len(problems), 20)], "\n"), w.report())
				} else if testing.Verbose() {
					t.Log(w.report())
				}
			})
		})
	}
}

// storm has faults at random for a time.
func (w *world) storm(d time.Duration) {
	end := time.Now().Add(d)
	versions := 0
	for {
		w.live(time.Duration(w.random.IntN(4000)) * time.Millisecond)
		if !time.Now().Before(end) {
			return
		}
		lasts := time.Duration(1000+w.random.IntN(7000)) * time.Millisecond
		s, a := w.sites[w.random.IntN(len(w.sites))], w.abides[w.random.IntN(len(w.abides))]
		conns := w.net.connsTo(s.name())
		conns = conns[:w.random.IntN(len(conns)+1)]
		switch w.random.IntN(13) {
		case 0:
			if s.kind == obedient && (s.tls && !s.h1) { // when a request was sent is not known
				continue
			}
			s.mu.Lock()
			s.delayed = true
			s.mu.Unlock()
			w.net.darken(s.name(), w.disturb(lasts, "nothing reaches %s for %v", s.host, lasts))
		case 1:
			w.net.refuse(s.name(), w.disturb(lasts, "%s refuses connections for %v", s.host, lasts))
		case 2, 3:
			w.disturb(0, "%d connections to %s are reset", len(conns), s.host)
			for _, c := range conns {
				c.reset()
			}
		case 4:
			w.disturb(vanished, "%d connections to %s are cut", len(conns), s.host)
			for _, c := range conns {
				c.cut()
			}
		case 5:
			until := w.disturb(lasts, "%s fails for %v", s.host, lasts)
			s.mu.Lock()
			s.flaky = until
			s.mu.Unlock()
		case 6:
			clients := w.net.connsTo(a.name)
			clients = clients[:w.random.IntN(len(clients)+1)]
			w.disturb(0, "%d clients of %s are reset", len(clients), a.name)
			for _, c := range clients {
				c.reset()
			}
		case 7:
			versions++
			w.disturb(0, "%s reloads", a.name)
			w.check(a.server.Reload(w.policy(versions)))
		case 8, 9:
			if a.link == nil {
				continue
			}
			a.link.mu.Lock()
			switch w.random.IntN(4) {
			case 0:
				a.link.dark = w.disturb(lasts, "the store does not answer %s for %v", a.name, lasts)
			case 1:
				a.link.fails = w.disturb(lasts, "the store refuses %s for %v", a.name, lasts)
			case 2:
				a.link.lossy = w.disturb(lasts, "the store's answers to %s are lost for %v", a.name, lasts)
			case 3:
				a.link.slow = time.Duration(w.random.IntN(1000)) * time.Millisecond
				w.disturb(0, "the store answers %s after %v", a.name, a.link.slow)
			}
			a.link.mu.Unlock()
		case 10:
			if w.storage != "fleet" {
				continue
			}
			w.disturb(0, "%s is killed", a.name)
			a.kill()
			w.live(time.Duration(w.random.IntN(3000)) * time.Millisecond)
			a.start()
		case 11:
			if w.storage != "fleet" && w.storage != "file" { // the limits of the next life begin anew
				continue
			}
			w.disturb(0, "%s stops and starts again", a.name)
			a.restart()
			w.disturb(0, "%s has started", a.name)
		case 12:
			gently := w.random.IntN(2) == 0
			w.disturb(lasts, "%s stops, gently: %v", s.host, gently)
			s.close(gently)
			w.live(time.Duration(w.random.IntN(2000)) * time.Millisecond)
			s.serve()
		}
	}
}

// operate reloads and restarts abides for a time.
func (w *world) operate(d time.Duration) {
	end := time.Now().Add(d)
	for version := 1; time.Now().Before(end); version++ {
		w.live(time.Duration(w.random.IntN(5000)) * time.Millisecond)
		a := w.abides[w.random.IntN(len(w.abides))]
		if (w.storage == "fleet" || w.storage == "file") && w.random.IntN(3) == 0 {
			w.disturb(0, "%s stops and starts again", a.name)
			a.restart()
			w.disturb(0, "%s has started", a.name)
			continue
		}
		w.disturb(0, "%s reloads", a.name)
		w.check(a.server.Reload(w.policy(version)))
	}
	for _, a := range w.abides {
		w.check(a.server.Reload(w.policy(0)))
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.net.mu.Lock()
	clear(w.net.dark)
	clear(w.net.refusing)
	all := make([]*conn, 0, len(w.net.open))
	for c := range w.net.open {
		all = append(all, c)
	}
	w.net.mu.Unlock()
	for _, c := range all {
		c.in.mu.Lock()
		lost := c.in.lost
		c.in.mu.Unlock()
		if lost {
			c.reset()
		}
	}
	for _, s := range w.sites {
		s.mu.Lock()
		s.flaky = time.Time{}
		s.mu.Unlock()
	}
	for _, a := range w.abides {
		w.check(a.server.Reload(w.policy(0)))
		if a.link != nil {
			a.link.mu.Lock()
			a.link.dark, a.link.fails, a.link.lossy, a.link.slow = time.Time{}, time.Time{}, time.Time{}, 0
			a.link.mu.Unlock()
		}
	}
	w.disturb(0, "all faults are over")
	w.mu.Lock()
	w.disturbed = time.Now()
	w.mu.Unlock()
}
