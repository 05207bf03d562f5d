//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestARequestThatIsGivenUpLateIsCountedAsGivenUp: in the middle of its answer, and while it is held
// by a command that ends at once.
func TestARequestThatIsGivenUpLateIsCountedAsGivenUp(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.Header().Set("Content-Length", "100000")
			w.Write(make([]byte, 1000))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer site.Close()
	for name, script := range map[string]string{
		"in the middle": "curl -s -o /dev/null --max-time 2 http://slow.test/slow; sleep 3",
		"while held":    "curl -s http://api.test/; curl -s --max-time 1 http://api.test/; sleep 3",
		"at the end":    "curl -s -o /dev/null --max-time 2 http://slow.test/slow; true",
		"together":      "for n in 1 2 3; do curl -s -o /dev/null --max-time 3 http://slow.test/slow & done; wait; sleep 2",
		"time-outs":     "for n in 1 2; do for m in 1 2; do curl -s -o /dev/null --max-time 3 http://slow.test/slow & done; wait; done",
	} {
		t.Run(name, func(t *testing.T) {
			dir, address := t.TempDir(), site.Listener.Addr().String()
			write(t, filepath.Join(dir, "abide.yaml"), `
data: none
sites: [{host: api.test, limits: [{requests: 1, per: 20h}]}]
queue: {wait: 30h}
egress: {resolve: {"api.test:80": "`+address+`", "slow.test:80": "`+address+`"}}
`)
			d := launch(t, dir, nil, "run", "--fail", "--summary", "summary.json", "--", "sh", "-c", script)
			if code := d.status(); code != 75 {
				t.Errorf("it ended with %d", code)
			}
			want := "1 request given up by the command before the end of the answer: stopped, or at a time-out"
			counted := `"code":499,"answers":1`
			switch name {
			case "at the end":
				want = "1 request to slow.test still open when the command ended"
			case "together": // one sign of a time-out may be a command that stops what it does
				want, counted = "3 requests given up by the command before the end of the answer: stopped, or at a time-out", `"code":499,"answers":3}`
			case "time-outs": // they end with the command, but not because it was stopped
				want, counted = "4 requests given up by the command before the end of the answer, after (3|2.9)s each: a longer time-out helps", `"code":499,"answers":4,"reason":"(3|2.9)s"`
			}
			d.log.await(t, want)
			text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
			if err != nil || !regexp.MustCompile(counted).Match(text) || !strings.Contains(string(text), `"own_answers":{}`) {
				t.Errorf("%v %s", err, text)
			}
		})
	}
}

// TestRequestsOfABrowserItselfAreOneLine: they are no failures of the command, and nothing warns of them.
func TestRequestsOfABrowserItselfAreOneLine(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "api.test" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer site.Close()
	dir, address := t.TempDir(), site.Listener.Addr().String()
	config := `
data: kept
retry: {attempts: 1}
breaker: {failures: 2}
egress: {resolve: {"api.test:80": "` + address + `", "update.googleapis.com:80": "` + address + `", "x.gvt1.com:80": "` + address + `", "x.gvt1.com:443": "` + address + `"}}
`
	write(t, filepath.Join(dir, "abide.yaml"), config)
	script := `curl -s http://api.test/
curl -s http://update.googleapis.com/; for n in 2 3 4; do curl -s -H 'Abide-Max-Wait: 0s' http://update.googleapis.com/; done; curl -s http://x.gvt1.com/
for n in 1 2 3 4; do curl -s --cacert /dev/null https://x.gvt1.com/; done; true`
	d := launch(t, dir, nil, "run", "--fail", "--summary", "summary.json", "--", "sh", "-c", script)
	code := d.status()
	said := d.log.String()
	if code != 0 || !strings.Contains(said, "1 request to 1 site in") || !strings.Contains(said, "browser  the browser itself: 5 requests to 2 hosts\n") || strings.Count(said, "\n") != 2 {
		t.Errorf("%d\n%s", code, said)
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil || !strings.Contains(string(text), `"browser_requests":5`) || !strings.Contains(string(text), `"failed":{}`) {
		t.Errorf("%v %s", err, text)
	}
	write(t, filepath.Join(dir, "abide.yaml"), config+"sites: [{host: update.googleapis.com}]\n")
	if d = launch(t, dir, nil, "run", "--", "sh", "-c", script); d.status() != 0 || !strings.Contains(d.log.String(), "update.googleapis.com: 1 answer 503, 3 answers 503 (by abide: breaker)") {
		t.Errorf("of a site with a rule:\n%s", d.log.String())
	}
}

// TestTheReasonOfFailedAnswersIsSaid: in the summary, its file, and the report that is read from the state file.
func TestTheReasonOfFailedAnswersIsSaid(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		if r.URL.Path == "/owes" {
			io.WriteString(w, `{"error":{"message":"Your credit balance is too low to access the API."}}`)
		}
	}))
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "egress: {resolve: {\"api.test:80\": \""+site.Listener.Addr().String()+"\"}}\n")
	d := launch(t, dir, nil, "run", "--summary", "summary.json", "--", "sh", "-c", "for path in owes owes bad; do curl -s http://api.test/$path; done")
	const want = "api.test: 1 answer 400, 2 answers 400 (no credit)"
	if d.status(); !strings.Contains(d.log.String(), want) {
		t.Errorf("the summary is\n%s", d.log.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil || !strings.Contains(string(text), `[{"code":400,"answers":1},{"code":400,"answers":2,"reason":"no credit"}]`) {
		t.Errorf("%v %s", err, text)
	}
	if report := launch(t, dir, nil, "report"); report.status() != 0 || !strings.Contains(report.out.String(), want) {
		t.Errorf("the report says\n%s%s", report.out.String(), report.log.String())
	}
}

// TestAQuotaWithoutAnAnnouncementIsNamed: by what the site said, in the summary, its file, and the advice from the state file.
func TestAQuotaWithoutAnAnnouncementIsNamed(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 5 {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "40000")
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, `{"error": "Five calls a day."}`)
		}
	}))
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "egress: {resolve: {\"api.test:80\": \""+site.Listener.Addr().String()+"\"}}\n")
	d := launch(t, dir, nil, "run", "--summary", "summary.json", "--", "sh", "-c", "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do curl -s http://api.test/; done")
	const want = `requests wait, because of a pause: Retry-After: 429, "Five calls a day."`
	if d.status(); !strings.Contains(d.log.String(), "api.test: "+want+", until ") {
		t.Errorf("the summary is\n%s", d.log.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil || !strings.Contains(string(text), `"why":"Retry-After: 429, \"Five calls a day.\""`) {
		t.Errorf("%v %s", err, text)
	}
	if advice := launch(t, dir, nil, "advise"); advice.status() != 0 || !strings.Contains(advice.out.String(), want) || !strings.Contains(advice.out.String(), "It is asked again at ") || strings.Contains(advice.out.String(), "longer wait") {
		t.Errorf("the advice is\n%s%s", advice.out.String(), advice.log.String())
	}
}

// TestManyShortHoldsAreTold: those of a crawl with one client that is as fast as a limit allows.
func TestManyShortHoldsAreTold(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.NotFoundHandler())
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "sites: [{host: api.test, limits: [{requests: 2, per: 1s, as: paced}]}]\negress: {resolve: {\"api.test:80\": \""+site.Listener.Addr().String()+"\"}}\n")
	d := launch(t, dir, nil, "run", "--", "sh", "-c", "curl -s $(printf 'http://api.test/%d ' $(seq 12))")
	if d.status(); !strings.Contains(d.log.String(), ": api.test, limit: 2 requests per 1s") {
		t.Errorf("the summary is\n%s", d.log.String())
	}
}

// TestALongHoldSaysHowItsLimitBecameKnown: at its begin.
func TestALongHoldSaysHowItsLimitBecameKnown(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: kept\n")
	d := launch(t, dir, []string{limited(t)}, "run", "--", "sh", "-c", "for n in 1 2 3; do curl -s http://api.test/; done")
	d.log.await(t, "limit: 2 requests, announced by the site")
	d.signal(syscall.SIGTERM)
	d.status()
}

// TestAReportOfTheStateFileNamesHiddenLimits: as the run did that found them.
func TestAReportOfTheStateFileNamesHiddenLimits(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var passed []time.Time
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		passed = slices.DeleteFunc(passed, func(at time.Time) bool { return time.Since(at) > 5*time.Second })
		if len(passed) >= 3 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		passed = append(passed, time.Now())
	}))
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: kept\negress: {resolve: {\"api.test:80\": \""+site.Listener.Addr().String()+"\"}}\n")
	d := launch(t, dir, nil, "run", "--", "sh", "-c", "for n in 1 2 3; do for n in 1 2 3 4; do curl -s http://api.test/ & done; wait; done")
	d.status()
	found := regexp.MustCompile(`limit: (about .*), found by refusals`).FindStringSubmatch(d.log.String())
	if found == nil {
		t.Fatalf("no limit was found:\n%s", d.log.String())
	}
	report := launch(t, dir, nil, "report")
	if report.status() != 0 || !strings.Contains(report.out.String(), found[1]) || strings.Contains(report.out.String(), "unknown limit") {
		t.Errorf("not %q:\n%s%s", found[1], report.out.String(), report.log.String())
	}
}

// TestARunReadsItsTokensAndItsConfigurationAgain: when the file of the tokens changes, and when abide reload asks for it.
func TestARunReadsItsTokensAndItsConfigurationAgain(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer site.Close()
	dir := t.TempDir()
	config := `
data: kept
pools: {p: {file: tokens.csv, column: token}}
sites: [{host: api.test, pool: p, insecure: true}]
egress: {resolve: {"api.test:80": "` + site.Listener.Addr().String() + `"}}
`
	write(t, filepath.Join(dir, "abide.yaml"), config)
	write(t, filepath.Join(dir, "tokens.csv"), "token\nfirst\n")
	d := launch(t, dir, nil, "run", "--", "sh", "-c", `
shows() { for i in $(seq 3000); do curl -s http://api.test/ | grep $1 && return; sleep 0.1; done; exit 9; }
shows first; echo second >> tokens.csv; shows second; echo now; shows fourth; for i in $(seq 6000); do test -e done && break; sleep 0.1; done`)
	d.out.await(t, "now")
	write(t, filepath.Join(dir, "other.csv"), "token\nfourth\n")
	write(t, filepath.Join(dir, "abide.yaml"), strings.Replace(config, "tokens.csv", "other.csv", 1))
	item := launch(t, dir, nil, "reload")
	if code := item.status(); code != 0 || !strings.Contains(item.out.String(), "reloaded: ") {
		t.Errorf("reload: %d %s%s", code, item.out, item.log)
	}
	write(t, filepath.Join(dir, "done"), "")
	if code := d.status(); code != 0 || strings.Contains(d.log.String(), "panic") {
		t.Errorf("it ended with %d", code)
	}
}

// TestAnOutageThatIsOverIsReported: with its length, by the report of the state file, as by the summary of the run.
func TestAnOutageThatIsOverIsReported(t *testing.T) {
	t.Parallel()
	began := time.Now()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if at := time.Since(began); at > 2*time.Second && at < 5*time.Second {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: kept\nbreaker: {failures: 2}\negress: {resolve: {\"api.test:80\": \""+site.Listener.Addr().String()+"\"}}\n")
	d := launch(t, dir, nil, "run", "--", "sh", "-c", "for n in $(seq 60); do curl -s http://api.test/ && sleep 0.1; done")
	d.status()
	if said := d.log.String(); !strings.Contains(said, "api.test answers again after ") {
		t.Fatalf("there was no outage:\n%s", said)
	}
	if report := launch(t, dir, nil, "report"); report.status() != 0 || !regexp.MustCompile(`an outage or a ban that is over +api\.test +0s +[2-9]\.\d+s`).MatchString(report.out.String()) {
		t.Errorf("the report says\n%s%s", report.out.String(), report.log.String())
	}
}
