package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// robotPage is answered by a site in place of all others, with the status of a success.
const robotPage = `<html><head><title>Robot Check</title></head><body><p>Enter the characters you see below. We need to make sure you're not a robot.</p></body></html>`

// item is a page of its own for each path.
func item(r *http.Request) string {
	return fmt.Sprintf("<html><body><h1>Item %s</h1><p>%s</p></body></html>", r.URL.Path, strings.Repeat("text ", 20+len(r.URL.Path)%7))
}

// TestAPageThatAsksWhetherTheClientIsARobotIsARefusal: the crawler gets none of them.
func TestAPageThatAsksForARobotIsARefusal(t *testing.T) {
	for _, clients := range []int{1, 8} {
		limit := &window{n: 12, per: 4 * time.Second}
		sites := func(rw http.ResponseWriter, r *http.Request) {
			elapse(20 * time.Millisecond)
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			if limit.full() {
				fmt.Fprint(rw, robotPage)
				return
			}
			fmt.Fprint(rw, item(r))
		}
		run(t, sites, "", func(w rig) {
			good := 0
			for i := 0; i < 120; i += clients {
				for _, a := range w.requestTogether(clients, func(k int) result { return w.Get(fmt.Sprintf("http://site.test/dp/%d", i+k)) }) {
					if strings.Contains(a.Body, "Item") {
						good++
					}
				}
			}
			if took := time.Since(w.Began); good != 120 || limit.refused > 12 || took > 80*time.Second {
				t.Errorf("%d clients: %d of 120, %d refused, in %v", clients, good, limit.refused, took)
			}
		})
	}
}

// TestThePageThatAllURLsGetIsARefusal, whatever it says: it is noticed when a second URL gets it.
func TestThePageThatAllURLsGetIsARefusal(t *testing.T) {
	limit := &window{n: 12, per: 4 * time.Second}
	sites := func(rw http.ResponseWriter, r *http.Request) {
		elapse(20 * time.Millisecond)
		rw.Header().Set("Content-Type", "text/html")
		if limit.full() {
			fmt.Fprint(rw, "<html><body>Bitte warten</body></html>")
			return
		}
		fmt.Fprint(rw, item(r))
	}
	run(t, sites, "", func(w rig) {
		good := 0
		for i := range 120 {
			if a := w.Get(fmt.Sprintf("http://site.test/dp/%d", i)); strings.Contains(a.Body, "Item") {
				good++
			}
		}
		if took := time.Since(w.Began); good < 119 || limit.refused > 12 || took > 80*time.Second {
			t.Errorf("%d of 120, %d refused, in %v", good, limit.refused, took)
		}
	})
}

// TestPagesThatLookAlikeAreNoRefusals: an application that draws its pages itself, searches that find
// nothing, and what is not available any more are fetched as fast as other pages.
func TestPagesThatLookAlikeAreNoRefusals(t *testing.T) {
	const shell = `<html><body><div id="app"></div><script src="/app.js"></script><p>Protected by a captcha</p></body></html>`
	for name, page := range map[string]func(i int, r *http.Request) string{
		"an application": func(int, *http.Request) string { return shell },
		"an application beside pages": func(i int, r *http.Request) string {
			if i < 12 {
				return item(r)
			}
			return shell
		},
		"searches that find nothing": func(i int, r *http.Request) string {
			if i%7 == 3 || i%7 == 4 {
				return "<html><body>Nothing was found.</body></html>"
			}
			return item(r)
		},
		"what is not available": func(i int, r *http.Request) string {
			if i > 30 && i < 250 {
				return "<html><body>This item is not available. Are you a robot?</body></html>"
			}
			return item(r)
		},
	} {
		sites := func(rw http.ResponseWriter, r *http.Request) {
			i := 0
			fmt.Sscanf(r.URL.Path, "/dp/%d", &i)
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, page(i, r))
		}
		run(t, sites, "", func(w rig) {
			for i := range 300 {
				if a := w.Get(fmt.Sprintf("http://site.test/dp/%d", i)); a.Status != http.StatusOK || !strings.Contains(a.Body, "<body>") {
					t.Fatalf("%s, %d: %d %s", name, i, a.Status, a.Body)
				}
			}
			if took, more := time.Since(w.Began), w.Asked.Load()-300; took > 5*time.Second || more > 20 {
				t.Errorf("%s: %v, and %d requests more", name, took, more)
			}
		})
	}
}

// TestAPageThatEverythingGetsForLongIsTheSitesOwn: a session that has ended, say, is answered with one page for ever.
func TestAPageThatEverythingGetsForLongIsTheSitesOwn(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		elapse(20 * time.Millisecond)
		rw.Header().Set("Content-Type", "text/html")
		if time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) > 5*time.Second {
			fmt.Fprint(rw, "<html><body>Log in</body></html>")
			return
		}
		fmt.Fprint(rw, item(r))
	}
	run(t, sites, "", func(w rig) {
		for i := range 400 {
			if a := w.Get(fmt.Sprintf("http://site.test/dp/%d", i)); a.Status != http.StatusOK {
				t.Fatalf("%d: %d %s", i, a.Status, a.Body)
			}
		}
		if took := time.Since(w.Began); took > 30*time.Minute {
			t.Errorf("%v", took)
		}
	})
}
