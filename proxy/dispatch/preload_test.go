package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

// remaining is what is left of each limit, by its scope and title, as explain shows.
func (w rig) remaining(method, u, client string) map[string]int64 {
	w.T.Helper()
	e, err := w.Explain(method, parseURL(u), client)
	must(w.T, err)
	if !e.Until.IsZero() || e.Expected.After(time.Now()) || e.Place != 1 {
		w.T.Errorf("something holds it: %+v", e)
	}
	left := map[string]int64{}
	for _, l := range e.Limits {
		left[l.Limit] = l.Left
	}
	return left
}

// After a restart, before any request, a look at the limits shows what is left and not the
// full amount.
func TestWhatIsLeftIsToldBeforeTheFirstRequest(t *testing.T) {
	const yaml = `
sites:
  - host: site.test
    learn: false
    limits:
      - {requests: 100, per: day}
      - {requests: 200, per: month, by: client}
      - {requests: 300, per: 1h, by: route}
      - {requests: 60, per: 1m}
  - {host: bytes.test, learn: false, limits: [{bytes: 1MB, per: day}]}
`
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			runRestarts(t, newStatePath(t), time.Hour, answerFine, func(l *restartTest) {
				w := l.begin(yaml)
				for range 20 {
					if a := w.Get("http://site.test/page", "Abide-Client", "news"); a.Status != 200 {
						t.Fatal(a.Status, a.Body)
					}
				}
				g, denied := w.permit("http://bytes.test/", withBytes(100_000))
				if denied != nil {
					t.Fatal(denied)
				}
				w.settle(g, status.PermitEnd{Status: 200, Bytes: 100_000})
				elapse(time.Minute)
				end(w)
				w = l.begin(yaml)
				defer w.end()
				spare := int64(0) // number that kill may lose
				if how == "kill -9" {
					spare = 10
				}
				check := func(what string, left, whole int64) {
					t.Helper()
					if left > whole-20 || left < whole-20-spare {
						t.Errorf("%s: %d of %d are left", what, left, whole)
					}
				}
				seen := map[string]bool{}
				for _, f := range w.Forecast("", 0) {
					if seen[f.Unit+f.Of] = true; f.Unit == "bytes" {
						if f.Used < 100_000 || f.Used > 100_000+5000*spare {
							t.Errorf("%+v", f)
						}
						continue
					}
					check("forecast of "+f.Limit, f.Left, f.Amount)
					if f.Rate > 0.001 {
						t.Errorf("%s: what was taken before is a rate of %v", f.Limit, f.Rate)
					}
				}
				for _, one := range []string{"requests", "requestsnews", "requestsGET /page", "bytes"} {
					if !seen[one] {
						t.Errorf("no forecast of %s: %v", one, seen)
					}
				}
				left := w.remaining("GET", "http://site.test/page", "news")
				check("the day", left["100 requests per day"], 100)
				check("the client", left["200 requests per month by client"], 200)
				check("the route", left["300 requests per 1h by route"], 300)
				if left["60 requests per 1m"] != 60 {
					t.Errorf("%v", left)
				}
				left = w.remaining("GET", "http://site.test/other", "else")
				check("the day", left["100 requests per day"], 100)
				if left["200 requests per month by client"] != 200 || left["300 requests per 1h by route"] != 300 {
					t.Errorf("of another: %v", left)
				}
				// A look at the limits changes nothing.
				if a := w.Get("http://site.test/page", "Abide-Client", "news"); a.Status != 200 {
					t.Fatal(a.Status)
				}
				if after := w.remaining("GET", "http://site.test/page", "news"); after["100 requests per day"] < 79-spare || after["100 requests per day"] > 79 {
					t.Errorf("%v", after)
				}
			})
		})
	}
}

// Budgets beyond those that are preloaded at the start are read when they are asked for.
func TestWhatIsNotThereFromTheBeginningIsThereWhenItIsAskedFor(t *testing.T) {
	const yaml = "sites:\n  - {host: \"*.test\", learn: false, limits: [{requests: 100, per: day}]}\n"
	runRestarts(t, newStatePath(t), time.Hour, answerFine, func(l *restartTest) {
		w := l.begin(yaml)
		for i := range 3 {
			w.Get(fmt.Sprintf("http://site%d.test/", i))
		}
		w.end()
		w = l.begin("") // where no limit is known, none is preloaded
		if list := w.WrittenLimits(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		w.Reload(yaml)
		for i := range 3 {
			site := fmt.Sprintf("site%d.test", i)
			if left := w.remaining("GET", "http://"+site+"/", ""); left["100 requests per day"] != 99 {
				t.Errorf("%s: %v", site, left)
			}
		}
		if left := w.remaining("GET", "http://site4.test/", ""); left["100 requests per day"] != 100 {
			t.Errorf("%v", left)
		}
		if list := w.WrittenLimits(); len(list) != 3 {
			t.Errorf("%+v", list)
		}
		w.end()
	})
}

// What a site has announced is shown too.
func TestWhatWasAnnouncedIsToldBeforeTheFirstRequest(t *testing.T) {
	s := &announcing{limit: 20}
	runRestarts(t, newStatePath(t), time.Hour, s.serve, func(l *restartTest) {
		w := l.begin("")
		for range 5 {
			w.Get("http://site.test/")
		}
		before := w.remaining("GET", "http://site.test/", "")
		if len(before) == 0 {
			t.Error("nothing was learned")
		}
		w.end()
		w = l.begin("")
		after := w.remaining("GET", "http://site.test/", "")
		for title, n := range before {
			if got, there := after[title]; !there || got > n {
				t.Errorf("%s: %d were left, and now it says %v", title, n, after)
			}
		}
		w.end()
	})
}
