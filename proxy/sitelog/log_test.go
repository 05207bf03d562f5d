package sitelog

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit/queue"
)

func TestLinesAreTakenAtEveryLogLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logrus.New()
		log.SetOutput(io.Discard)
		log.SetLevel(logrus.WarnLevel)
		a, gate := New(log), queue.NewGate(queue.Bounds{}, nil)
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx, gate) })
		for n := range 10_000 {
			site := fmt.Sprintf("%d.test", n%50)
			a.Refused(Refusal{Site: site, Status: http.StatusTooManyRequests, Until: time.Now().Add(time.Second), Why: "Retry-After"})
			time.Sleep(2 * time.Second)
			a.Accepted(site, time.Now())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		a.mu.Lock()
		if lines, sites := len(a.sites.lines), len(a.sites.sites); lines+sites > 0 {
			t.Errorf("%d lines and %d sites are kept", lines, sites)
		}
		a.mu.Unlock()
		if a.refusing.Load() != 0 || a.awake.Load() {
			t.Errorf("%d sites refuse, awake: %v", a.refusing.Load(), a.awake.Load())
		}
		end()
		running.Wait()
	})
}

func TestALineIsWrittenOnceAndTheMemoryOfItIsBounded(t *testing.T) {
	l := LineLimit{Every: time.Minute}
	now := time.Now()
	if !l.Due("a", now) || l.Due("a", now.Add(59*time.Second)) || !l.Due("b", now) {
		t.Error("it is due at the wrong times")
	}
	if !l.Due("a", now.Add(time.Minute)) {
		t.Error("it is not due after a minute")
	}
	for i := range 5 * maxLines {
		l.Due(fmt.Sprint(i), now)
	}
	if l.last.Len() > maxLines || l.Due("one more", now) {
		t.Errorf("%d are remembered", l.last.Len())
	}
	if !l.Due("one more", now.Add(2*time.Minute)) || l.last.Len() > maxLines {
		t.Errorf("afterwards %d are remembered", l.last.Len())
	}
}

// The oldest of the lines leaves first.
func TestAFullLineLimitHasRoomWhenALineMayLeave(t *testing.T) {
	l := LineLimit{Every: time.Hour}
	now := time.Now()
	for i := range maxLines {
		l.Due(fmt.Sprint(i), now.Add(time.Duration(i)*time.Second))
	}
	if now = now.Add(maxLines * time.Second); l.Due("more", now) {
		t.Error("there is room")
	}
	room := now.Add(time.Hour - maxLines*time.Second)
	if l.Due("more", room.Add(-1)) || !l.Due("more", room) || l.Due("yet more", room) {
		t.Error("the room of one line is not that of one")
	}
}
