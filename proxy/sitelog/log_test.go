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
