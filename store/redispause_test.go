//go:build unix

package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
)

func TestAServerThatHangsIsWaitedForAsLongAsTheCallerWants(t *testing.T) {
	server := redistest.Start(t)
	s := connect(t, addressOf(server), nil)
	server.Pause()
	defer server.Resume()
	least := time.Hour // the best of five, as others use the machine too
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		began := time.Now()
		_, err := s.Exchange(ctx, []store.Batch{{Site: "site", Instance: "a", Asks: []store.Ask{fixed(1, 1)}}})
		least = min(least, time.Since(began))
		cancel()
		if err == nil {
			t.Fatal("it answered")
		}
		if least < 500*time.Millisecond {
			break
		}
	}
	if least > 900*time.Millisecond { // its own bound is a second
		t.Errorf("it was waited for for %v", least)
	}
	server.Resume()
	if _, a := say(t, s, "", "a", fixed(2, 1)); a.Granted != 1 {
		t.Errorf("afterwards: %+v", a)
	}
}
