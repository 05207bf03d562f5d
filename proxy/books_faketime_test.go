package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/ledger"
)

// A host that has announced a limit and refused by it is not asked again before it said,
// however many hosts have been asked since.
func TestAHostThatRefusesByWhatItAnnouncedIsLeftAloneAmongVeryMany(t *testing.T) {
	const hosts = bookShards * mostBooks * 5 / 4
	refusing := func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		h.Set("RateLimit-Limit", "60")
		h.Set("RateLimit-Remaining", "0")
		h.Set("RateLimit-Reset", "3600")
		h.Set("Retry-After", "3600")
		rw.WriteHeader(http.StatusTooManyRequests)
	}
	bubble(t, refusing, "queue: {wait: 1s}\n", func(w *world) {
		w.get200(hosts, "h%d.test")
		asked := w.asked.Load()
		c := w.client()
		for n := range 20 {
			w.get(c, fmt.Sprintf("http://h%d.test/", n))
		}
		if again := w.asked.Load() - asked; again != 0 {
			t.Errorf("%d of 20 hosts were asked again", again)
		}
		elapse(2 * time.Hour)
		if a := w.get(c, "http://h0.test/"); w.asked.Load() == asked {
			t.Errorf("a host is never asked again: %d %s", a.status, a.body)
		}
	})
}

func TestWhatIsKeptOfBooksThatHaveLeftIsBounded(t *testing.T) {
	limited := func(title string) *book {
		b := &book{routes: ledger.NewRoutes()}
		lesson := learn.Lesson{Limits: []learn.Limit{{Name: title, Limit: learn.Amount{N: 60, Known: true}, Window: time.Hour}}}
		b.routes.Learn(day0, b.routes.Class("GET", "", "/", 0), "", day0, &lesson)
		return b
	}
	var l leftBooks
	l.keep("silent", &book{routes: ledger.NewRoutes()})
	l.keep("long", limited(strings.Repeat("long", longestLeftState)))
	const sites = mostLeftBytes/leftEach + 100
	for n := range sites {
		l.keep(fmt.Sprint("site", n%(sites-10)), limited(""))
	}
	if l.bytes > mostLeftBytes || l.states.Len() < mostLeftBytes/1200 {
		t.Errorf("%d sites with %d bytes are kept", l.states.Len(), l.bytes)
	}
	for _, name := range []string{"silent", "site10"} {
		if l.bring(name, ledger.NewRoutes()) {
			t.Errorf("%s is kept", name)
		}
	}
	all := ledger.NewRoutes()
	if last := "site9"; !l.bring(last, all) || len(all.IDs()) != 1 || l.bring(last, all) {
		t.Errorf("the last one is not brought back once: %v", all.IDs())
	}
	for _, name := range l.states.Keys() {
		l.bring(name, ledger.NewRoutes())
	}
	if l.bytes != 0 || l.states.Len() != 0 {
		t.Errorf("%d bytes of %d sites are left", l.bytes, l.states.Len())
	}
}
