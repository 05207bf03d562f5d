package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestEndingHoldsEndsWhatWaitsAndNothingElse: what waits goes until the end, what surely goes later is refused at once, and
// what comes goes if it may go at once. Bytes of what is in flight go on.
func TestEndingHoldsEndsWhatWaitsAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := NewGate(Bounds{}, nil), time.Now()
		flight := allow(t, g, asks("a", "x", tenPerMinute()))
		for range 9 {
			allow(t, g, asks("a", "x", tenPerMinute())).Finish(Result{})
		}
		refused := make(chan time.Duration, 1)
		go func() {
			deny(t, g, asks("a", "x", tenPerMinute()), Draining)
			refused <- time.Since(start)
		}()
		synctest.Wait()
		if gone, left := g.EndHolds(start.Add(10 * time.Second)); gone != 1 || left != 0 || <-refused != 0 {
			t.Errorf("%d were refused at once, and %d wait", gone, left)
		}
		deny(t, g, asks("a", "x", tenPerMinute()), Draining)
		allow(t, g, asks("b", "x", tenPerMinute())).Finish(Result{})
		if time.Since(start) > 0 {
			t.Error("one of them waited")
		}
		if err := flight.Again(t.Context(), Retry{NotBefore: start.Add(time.Minute)}); err == nil {
			t.Error("what was to be sent again after the end goes")
		}
		time.Sleep(time.Minute)
		again := allow(t, g, asks("a", "x", tenPerMinute()))
		if err := again.Again(t.Context(), Retry{NotBefore: time.Now().Add(time.Hour)}); err != nil {
			t.Error("the command goes on, and what comes after the end is not held")
		}
		bytes := bytesOf(10, time.Second)
		bytes.Site = "c"
		sent := allow(t, g, bytes)
		source := g.ByteSource(bytes)
		defer source.Close()
		begin(time.Second)
		first, second := draws(t, source, 10, 10), draws(t, source, 10, 10)
		g.EndHolds(time.Now())
		if begun, next := <-first, <-second; begun != "10 after 0s" || next != "10 after 1s" {
			t.Errorf("bytes went %s and %s", begun, next)
		}
		sent.Finish(Result{})
		nobodyWaits(t, g)
	})
}
