package metrics

import (
	"sync"
	"testing"
)

// Requests that are the first of their site at the same time have one place between them.
func TestTheFirstRequestsOfASiteShareAPlace(t *testing.T) {
	for range 500 {
		x := newSites(1)
		s := x.site("a.test")
		var all sync.WaitGroup
		start := make(chan struct{})
		var got [4]*times
		for i := range got {
			all.Go(func() {
				<-start
				got[i] = s.timesOf()
			})
		}
		close(start)
		all.Wait()
		for _, one := range got {
			if one != got[0] {
				t.Fatal("they have several")
			}
		}
		if free := x.free.Load(); free != maxHistograms-1 {
			t.Fatalf("%d places are free", free)
		}
	}
}
