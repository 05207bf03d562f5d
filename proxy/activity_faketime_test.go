package proxy

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

	"github.com/abide-proxy/abide/queue"
)

func TestARequestThatIsRefusedAgainAndAgainIsHeldAsOneRequest(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "5")
		rw.WriteHeader(http.StatusTooManyRequests)
	}
	bubble(t, sites, "queue: {wait: 1m}\n", func(w *world) {
		w.get(w.client(), "http://site.test/")
		if w.asked.Load() < 3 {
			t.Errorf("%d attempts", w.asked.Load())
		}
		var most time.Duration
		for _, h := range w.server.Activity().Held {
			if h.Requests != 1 || h.Longest != h.Total {
				t.Errorf("held: %+v", h)
			}
			most = max(most, h.Total)
		}
		if most < 20*time.Second {
			t.Errorf("one limit held the request for at most %v", most)
		}
	})
}

func TestLinesAreTakenAtEveryLogLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logrus.New()
		log.SetOutput(io.Discard)
		log.SetLevel(logrus.WarnLevel)
		a, gate := newActivity(log), queue.NewGate(queue.Bounds{}, nil)
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.run(ctx, gate) })
		for n := range 10_000 {
			site := fmt.Sprintf("%d.test", n%50)
			a.refused(siteRefusal{site: site, status: http.StatusTooManyRequests, until: time.Now().Add(time.Second), why: "Retry-After"})
			time.Sleep(2 * time.Second)
			a.accepted(site, time.Now())
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
