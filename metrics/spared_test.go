package metrics

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestSitesAskedOnceTakeNoLabelOfABusyOne: a crawl of many hosts beside sites where requests wait.
func TestSitesAskedOnceTakeNoLabelOfABusyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(20)
		countApart(m, 20)
		busy := []string{"a", "b", "c"}
		for range 40 {
			for _, name := range busy {
				m.Site(name).Request("GET", 200, 1)
			}
		}
		counted := func() (n int) {
			for _, one := range m.Sites() {
				if one.Requests == 40 {
					n++
				}
			}
			return n
		}
		for i := range 1000 {
			m.Site(fmt.Sprint("once", i)).Request("GET", 200, 1)
		}
		if n := counted(); n != len(busy) || len(m.Sites()) != 21 {
			t.Errorf("%d of the busy sites are left, of %d: %v", n, len(m.Sites()), m.Sites())
		}
		time.Sleep(sparedFor + time.Second)
		for i := range 1000 {
			m.Site(fmt.Sprint("later", i)).Request("GET", 200, 1)
		}
		if n := counted(); n != 0 {
			t.Errorf("%d sites stay that nobody has asked for long", n)
		}
		for range 3 {
			for i := range 1000 {
				m.Site(fmt.Sprint("all", i)).Request("GET", 200, 1)
			}
		}
		if n := len(m.Sites()); n != 21 {
			t.Error(n)
		}
	})
}
