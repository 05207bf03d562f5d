package dispatch_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestAStreamWithoutAnAnnouncementHoldsNothingBack: a websocket, or a stream of events, stays open while the limit that
// the first answer has announced is hardly known.
func TestAStreamWithoutAnAnnouncementHoldsNothingBack(t *testing.T) {
	run(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-RateLimit-Limit", "10")
		rw.Header().Set("X-RateLimit-Remaining", "9")
		rw.Header().Set("X-RateLimit-Reset", "60")
	}, "sites: [{host: site.test}]", func(w rig) {
		answer := w.Send
		w.Send = func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/stream" {
				return answer(r)
			}
			body, end := io.Pipe()
			time.AfterFunc(time.Hour, func() { end.Close() })
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, ContentLength: -1, Request: r}, nil
		}
		w.Get("http://site.test/page")
		var stream sync.WaitGroup
		stream.Go(func() { w.Get("http://site.test/stream") })
		elapse(time.Second)
		began := time.Now()
		for n := range 3 {
			if a := w.Get(fmt.Sprint("http://site.test/item/", n)); a.Status != http.StatusOK {
				t.Errorf("status %d", a.Status)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("three requests took %v beside an open stream", took)
		}
		stream.Wait()
	})
}
