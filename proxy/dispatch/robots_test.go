package dispatch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/status"
)

// What abide does about robots.txt.
const (
	robotsPath      = "/robots.txt"
	robotsPatience  = 10 * time.Second // for which the first requests wait for robots.txt
	robotsRedirects = 5                // redirects that are followed
)

const robotsConfig = "queue: {wait: 2h}\nsites:\n  - {host: site.test, robots: on}\n"

// robotsSite answers /robots.txt with words, and counts the requests for it.
type robotsSite struct {
	n      atomic.Int64
	robots http.HandlerFunc
}

func (a *robotsSite) serve(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == robotsPath {
		a.n.Add(1)
		a.robots(rw, r)
		return
	}
	echoing(rw, r)
}

func respondText(text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, text) }
}

// tenRequests sends ten requests at once and returns how long they took.
func (w rig) tenRequests(headers ...string) time.Duration {
	w.T.Helper()
	began := time.Now()
	for _, a := range w.requestTogether(10, func(i int) result {
		return w.Get(fmt.Sprintf("http://site.test/%d", i), headers...)
	}) {
		if a.Status != 200 {
			w.T.Errorf("%d %s", a.Status, a.Body)
		}
	}
	return time.Since(began)
}

func TestRobotsCrawlDelayIsKept(t *testing.T) {
	const text = "User-agent: *\nCrawl-delay: 2\n\nUser-agent: hasty\nUser-agent: Quick\nCrawl-delay: 0.5\nDisallow: /x\n\nUser-agent: free\nDisallow:\n"
	for agent, want := range map[string]time.Duration{
		"anybody/1.0":                    18 * time.Second,
		"":                               18 * time.Second,
		"Hasty/2.0 (+http://hasty.test)": 4500 * time.Millisecond,
		"Mozilla/5.0 (compatible; quick/2.0; +http://x)": 4500 * time.Millisecond,
		"free": 0,
	} {
		site := &robotsSite{robots: respondText(text)}
		run(t, site.serve, robotsConfig, func(w rig) {
			if took := w.tenRequests("User-Agent", agent); took < want || took > want+100*time.Millisecond {
				t.Errorf("%q: ten requests took %v, not %v", agent, took, want)
			}
			if n := site.n.Load(); n != 1 {
				t.Errorf("robots.txt was asked for %d times", n)
			}
			e, err := w.Explain("GET", parseURL("http://site.test/"), "")
			if explained := slices.ContainsFunc(e.Limits, func(l status.ExplainedLimit) bool {
				return l.Limit == fmt.Sprintf("Crawl-delay of %v s", (want/9).Seconds())
			}); err != nil || explained != (want > 0) {
				t.Errorf("%q: %v, explained by %+v", agent, err, e.Limits)
			}
			if n := w.Ended.Load(); n != 10+1 {
				t.Errorf("%d requests were counted, that for robots.txt included", n)
			}
		})
	}
}

func TestRobotsWithoutADelayNobodyWaits(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(code)
			io.WriteString(rw, "User-agent: *\nCrawl-delay: 2\n")
		}
	}
	to := func(where string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, where, http.StatusFound) }
	}
	for name, robots := range map[string]http.HandlerFunc{
		"nothing":      respondText(""),
		"no delay":     respondText("User-agent: *\nDisallow: /\n"),
		"404":          status(404),
		"403":          status(403),
		"500":          status(500),
		"304":          status(304),
		"a loop":       to(robotsPath),
		"another host": to("http://other.test/robots.txt"),
		"another port": func(rw http.ResponseWriter, r *http.Request) {
			if r.Host == "site.test" {
				http.Redirect(rw, r, "http://site.test:8080/robots.txt", http.StatusFound)
				return
			}
			io.WriteString(rw, "User-agent: *\nCrawl-delay: 2\n")
		},
		"another scheme": to("ftp://site.test/robots.txt"),
		"nowhere":        to("http://%%%"),
		"as somebody":    to("http://me:you@site.test/robots.txt"),
		"cut off": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "99")
			io.WriteString(rw, "User-agent: *\nCrawl-delay: 2\n")
		},
		"it breaks off":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"beyond half a MiB": respondText(strings.Repeat("# nothing\n", 52000) + "User-agent: *\nCrawl-delay: 2\n"),
	} {
		site := &robotsSite{robots: robots}
		run(t, site.serve, robotsConfig+"retry: {attempts: 0}\n", func(w rig) {
			if took := w.tenRequests(); took != 0 {
				t.Errorf("%s: ten requests took %v", name, took)
			}
			if n := site.n.Load(); n > 1+robotsRedirects {
				t.Errorf("%s: %d requests for robots.txt", name, n)
			}
		})
	}
}

func TestRobotsARedirectOnTheSameHostIsFollowed(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == robotsPath:
			http.Redirect(rw, r, "/a/b?c", http.StatusMovedPermanently)
		case r.URL.RequestURI() == "/a/b?c":
			http.Redirect(rw, r, "http://site.test:80/d%2Fe", http.StatusTemporaryRedirect)
		case r.URL.EscapedPath() == "/d%2Fe":
			io.WriteString(rw, "User-agent: *\nCrawl-delay: 2\n")
		}
	}
	run(t, sites, robotsConfig, func(w rig) {
		if took := w.tenRequests(); took != 18*time.Second {
			t.Errorf("%v", took)
		}
	})
}

func TestRobotsARedirectToAnotherHostOfTheSameSiteIsNotFollowed(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == robotsPath && r.Host == "site.test":
			http.Redirect(rw, r, "http://other.test/robots.txt", http.StatusFound)
		case r.URL.Path == robotsPath:
			io.WriteString(rw, "User-agent: *\nCrawl-delay: 2\n")
		}
	}
	run(t, sites, "sites:\n  - {name: all, host: [site.test, other.test, third.test], group: rule, robots: on}\n", func(w rig) {
		if took := w.tenRequests(); took != 0 || w.Asked.Load() != 11 {
			t.Errorf("%v, %d requests", took, w.Asked.Load())
		}
		w.Get("http://other.test/")
		if a := w.Get("http://third.test/"); a.At != 0 {
			t.Errorf("%v", a.At)
		}
		// Each host of a site has a delay of its own.
		if a := w.Get("http://site.test/"); a.At != 0 {
			t.Errorf("%v", a.At)
		}
		if a := w.Get("http://other.test/"); a.At != 2*time.Second {
			t.Errorf("%v", a.At)
		}
	})
}

func TestRobotsAnAnswerIsKeptForADayAndAFailureIsNot(t *testing.T) {
	site := &robotsSite{}
	site.robots = func(rw http.ResponseWriter, r *http.Request) {
		switch site.n.Load() {
		case 1, 3:
			rw.WriteHeader(500)
		case 2:
			io.WriteString(rw, "User-agent: *\nCrawl-delay: 2\n")
		}
	}
	run(t, site.serve, robotsConfig, func(w rig) {
		for i, step := range []struct {
			after time.Duration
			took  time.Duration
			asked int64
		}{
			{0, 0, 1},
			{9 * time.Minute, 0, 1},
			{2 * time.Minute, 0, 2}, // robots.txt is fetched again, and no request waits for that
			{time.Minute, 18 * time.Second, 2},
			{23 * time.Hour, 18 * time.Second, 2},
			{time.Hour, 18 * time.Second, 3}, // the fetch fails: the old robots.txt stays
			{9 * time.Minute, 18 * time.Second, 3},
			{2 * time.Minute, 18 * time.Second, 4}, // robots.txt has no delay any more
			{time.Minute, 0, 4},
		} {
			time.Sleep(step.after)
			took := w.tenRequests()
			synctest.Wait()
			if n := site.n.Load(); (took != step.took && i != 2 && i != 7) || n != step.asked {
				t.Errorf("step %d: ten requests took %v, and robots.txt was asked for %d times", i, took, n)
			}
		}
	})
}

func TestRobotsASlowAnswerIsNotWaitedForForLong(t *testing.T) {
	site := &robotsSite{robots: func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Minute):
		case <-r.Context().Done():
		}
		io.WriteString(rw, "User-agent: *\nCrawl-delay: 2\n")
	}}
	run(t, site.serve, robotsConfig, func(w rig) {
		if a := w.Get("http://site.test/", "Abide-Max-Wait", "3s"); a.At != 3*time.Second {
			t.Errorf("%v", a.At)
		}
		if a := w.Get("http://site.test/robots.txt"); a.At != 63*time.Second {
			t.Errorf("robots.txt itself waited: %v", a.At)
		}
		if took := w.tenRequests(); took < 18*time.Second || took > 20*time.Second {
			t.Errorf("%v", took)
		}
		if n := site.n.Load(); n != 2 {
			t.Errorf("%d", n)
		}
	})
	run(t, site.serve, robotsConfig, func(w rig) {
		if took := w.tenRequests(); took != robotsPatience {
			t.Errorf("%v", took)
		}
		ctx, leave := context.WithTimeout(w.T.Context(), time.Second)
		defer leave()
		began := time.Now()
		w.Do(ctx, "GET", "http://site.test:81/leaves", "")
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.Asked.Load(); n != 12 || time.Since(began) > 3*time.Second {
			t.Errorf("%d requests were sent: 10, 2 for robots.txt and none whose client left", n)
		}
	})
}

func TestRobotsLimitsHoldForTheAskingToo(t *testing.T) {
	site := &robotsSite{robots: respondText("User-agent: *\nCrawl-delay: 2\n")}
	run(t, site.serve, "queue: {wait: 2h}\nsites:\n  - {host: site.test, robots: on, limits: [{requests: 5, per: 1m}]}\n", func(w rig) {
		// One of the first five is for robots.txt, and so on.
		if took := w.tenRequests(); took < 2*time.Minute || took > 2*time.Minute+2*time.Second {
			t.Errorf("%v", took)
		}
	})
}

func TestRobotsAReloadTurnsItOff(t *testing.T) {
	site := &robotsSite{robots: respondText("User-agent: *\nCrawl-delay: 60\n")}
	run(t, site.serve, robotsConfig, func(w rig) {
		go func() {
			time.Sleep(90 * time.Second)
			w.Reload(strings.Replace(robotsConfig, "on}", "off, priority: 1}", 1))
		}()
		if took := w.tenRequests(); took != 90*time.Second {
			t.Errorf("%v", took)
		}
	})
}

func TestRobotsObservedHoldsNothing(t *testing.T) {
	site := &robotsSite{robots: respondText("User-agent: *\nCrawl-delay: 60\n")}
	run(t, site.serve, "mode: observe\n"+robotsConfig, func(w rig) {
		w.Get("http://site.test/")
		synctest.Wait()
		if took := w.tenRequests(); took != 0 {
			t.Errorf("%v", took)
		}
		if a := w.Get("http://site.test/"); a.Would == nil || a.Would.Limit != "Crawl-delay of 60 s" {
			t.Errorf("%v", a.Header)
		}
	})
}

func TestRobotsAndCoalesceTogether(t *testing.T) {
	site := &robotsSite{robots: respondText("User-agent: *\nCrawl-delay: 2\n")}
	run(t, site.serve, "sites:\n  - {host: site.test, robots: on, coalesce: on}\n", func(w rig) {
		w.Get("http://site.test/")
		for _, a := range w.requestTogether(10, func(int) result { return w.Get("http://site.test/") }) {
			if a.At != 2*time.Second || a.Waited != 2*time.Second {
				t.Errorf("%v %v", a.At, a.Header)
			}
		}
		if n := w.Asked.Load(); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestAnExplanationKnowsTheCrawlDelayAndAsksForNothing(t *testing.T) {
	site := &robotsSite{robots: respondText("User-agent: *\nCrawl-delay: 60\n")}
	run(t, site.serve, robotsConfig, func(w rig) {
		explain := func() status.Explanation {
			e, err := w.Explain("GET", parseURL("http://site.test/b"), "")
			must(t, err)
			return e
		}
		if e := explain(); e.Limit != "" || site.n.Load() != 0 {
			t.Errorf("before the first request: %+v, robots.txt was asked for %d times", e, site.n.Load())
		}
		w.Get("http://site.test/a")
		if e := explain(); e.Limit != "Crawl-delay of 60 s" || time.Until(e.Until) < 50*time.Second || !strings.Contains(e.Normalize(time.Now()).BlockedBy, "Crawl-delay of 60 s") {
			t.Errorf("%+v", e)
		}
	})
}
