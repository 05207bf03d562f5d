package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// tidyAll looks at all sites once.
func tidyAll(g *Gate) {
	for part := range ForgetParts {
		g.ForgetIdle(time.Now(), part)
	}
}

func TestSitesLeaveThoughNoNewOnesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		var going []*Permit
		for i := range 30_000 {
			going = append(going, allow(t, g, asks(fmt.Sprint("site", i), "x", &single)))
		}
		for _, p := range going {
			p.Finish(Result{})
		}
		allow(t, g, asks("spent", "x", &perMinute)).Finish(Result{})
		busy := allow(t, g, asks("busy", "x", &single))
		g.Cool("busy", Scope{}, time.Now().Add(time.Hour), "Retry-After")
		if sites, _ := g.Len(); sites < 20_000 {
			t.Fatalf("%d sites are remembered at once", sites)
		}
		tidyAll(g)
		for _, name := range []string{"spent", "busy"} {
			s, _ := g.shardOf(name).lock(name)
			if s == nil {
				t.Fatalf("%s is forgotten", name)
			}
			s.mu.Unlock()
		}
		if sites, _ := g.Len(); sites != 2 {
			t.Errorf("%d sites are remembered after a while", sites)
		}
		busy.Finish(Result{})
		tidyAll(g)
		if sites, _ := g.Len(); sites != 2 {
			t.Error("a site that cools is forgotten")
		}
		time.Sleep(3 * time.Hour)
		tidyAll(g)
		if sites, _ := g.Len(); sites != 1 { // the one whose limit is shown
			t.Errorf("%d sites are remembered in the end", sites)
		}
		for i := range g.shards {
			if sh := &g.shards[i]; len(sh.sites) == 0 && sh.sites != nil {
				t.Fatalf("shard %d keeps a map", i)
			}
		}
	})
}

func TestSitesOfWhichLittleIsKnownLeaveWhenThereAreVeryMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		ask := func(name string) {
			r := asks(name, "x", nil)
			r.Limits[0] = []Limit{{Name: "learned", N: 1, Source: makeFunc(func() limit.Meter { return &spareable{Meter: spent(t)} })}}
			allow(t, g, r).Finish(Result{})
		}
		for i := range manySites / 2 {
			ask(fmt.Sprint("few", i))
		}
		tidyAll(g)
		if sites, _ := g.Len(); sites != manySites/2 {
			t.Errorf("of %d sites %d are remembered", manySites/2, sites)
		}
		for i := range 2 * manySites {
			ask(fmt.Sprint("many", i))
		}
		tidyAll(g)
		if sites, _ := g.Len(); sites < manySites/2 || sites > 2*manySites {
			t.Errorf("of very many sites %d are remembered", sites)
		}
	})
}

// spent is a meter that takes an hour for each request.
func spent(t *testing.T) limit.Meter {
	m, err := limit.New(limit.Spec{As: limit.Paced, Amount: 1, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// spareable is a meter of which little is known.
type spareable struct{ limit.Meter }

func (*spareable) Spare(time.Time) bool            { return true }
func (*spareable) SpareAt(now time.Time) time.Time { return now }
func (*spareable) Blank() bool                     { return false }
