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
	s := connect(t, server.URL(), store.RedisOptions{})
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.Exchange(ctx, []store.Batch{{Site: "site", Instance: "a", Asks: []store.Ask{fixed(1, 1)}}})
	if took := time.Since(began); err == nil || took > 900*time.Millisecond {
		t.Errorf("after %v: %v", took, err)
	}
	server.Resume()
	if _, a := say(t, s, "", "a", fixed(2, 1)); a.Granted != 1 {
		t.Errorf("afterwards: %+v", a)
	}
}
