package sites

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/sites/routes"
)

var day0 = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

func TestWhatIsKeptOfEvictedSitesIsBounded(t *testing.T) {
	limited := func(title string) *Site {
		b := &Site{routes: routes.New()}
		lesson := learn.Lesson{Limits: []learn.Limit{{Name: title, Limit: learn.Amount{N: 60, Known: true}, Window: time.Hour}}}
		b.routes.Learn(day0, b.routes.Class("GET", "", "/", 0), "", day0, &lesson)
		return b
	}
	var l evictedSites
	l.save("silent", &Site{routes: routes.New()})
	l.save("long", limited(strings.Repeat("long", longestState)))
	const sites = mostEvictedBytes/stateOverhead + 100
	for n := range sites {
		l.save(fmt.Sprint("site", n%(sites-10)), limited(""))
	}
	if l.bytes > mostEvictedBytes || l.states.Len() < mostEvictedBytes/1200 {
		t.Errorf("%d sites with %d bytes are kept", l.states.Len(), l.bytes)
	}
	for _, name := range []string{"silent", "site10"} {
		if l.restore(name, routes.New()) {
			t.Errorf("%s is kept", name)
		}
	}
	all := routes.New()
	if last := "site9"; !l.restore(last, all) || len(all.IDs()) != 1 || l.restore(last, all) {
		t.Errorf("the last one is not brought back once: %v", all.IDs())
	}
	for _, name := range l.states.Keys() {
		l.restore(name, routes.New())
	}
	if l.bytes != 0 || l.states.Len() != 0 {
		t.Errorf("%d bytes of %d sites are left", l.bytes, l.states.Len())
	}
}
