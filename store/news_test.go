package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// Whoever listens hears the notes themselves, once each and with the time that is left,
// so nobody has to ask for them. Notes that are too long to be told are only announced.
func TestNewNotesAreTold(t *testing.T) {
	for name, open := range map[string]func(c *clock) store.Store{
		"reference": func(c *clock) store.Store { return reference.New(c.now) },
		"redis":     func(c *clock) store.Store { return openRedis(t, c.now) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			s := open(c)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			heard, ended := make(chan store.News, 100), make(chan error, 1)
			go func() { ended <- s.(store.Listener).Listen(ctx, func(n store.News) { heard <- n }) }()
			defer func() {
				cancel()
				<-ended
			}()
			next := func() store.News {
				t.Helper()
				select {
				case n := <-heard:
					return n
				case <-ctx.Done():
					t.Fatal("nothing is heard")
				}
				return store.News{}
			}
			say := func(notes ...store.Note) {
				t.Helper()
				if _, err := s.Exchange(ctx, []store.Batch{{Site: "site.test:81", Instance: "a", Notes: notes}}); err != nil {
					t.Fatal(err)
				}
			}
			if n := next(); !n.Began {
				t.Errorf("got %+v", n)
			}
			until := c.now().Add(30 * time.Second)
			note := store.Note{Key: "cool\x1f\x1f", Until: until, Text: "429 \xff:@!"}
			two := store.Note{Key: "other", Until: until.Add(time.Hour), N: -5}
			say(note)
			if n := next(); n.Site != "site.test:81" || !sameNotes(n.Notes, []store.Note{note}) {
				t.Errorf("got %+v", n)
			}
			say(note, two) // one of them is not new
			if n := next(); n.Site != "site.test:81" || !sameNotes(n.Notes, []store.Note{two}) {
				t.Errorf("got %+v", n)
			}
			say(store.Note{Key: "long", Until: until, Text: strings.Repeat("x", 5000)})
			if n := next(); n.Site != "site.test:81" || name == "redis" && len(n.Notes) > 0 {
				t.Errorf("got %+v", n)
			}
		})
	}
}
