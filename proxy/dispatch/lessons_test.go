package dispatch

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
)

// blocking is a site that refuses everything by a page without a word, for some time.
type blocking struct {
	from, until int             // numbers of requests in between are refused
	forbidden   map[string]bool // paths that are always refused
	paths       []string        // of all requests
}

func (b *blocking) in(v *clock.Virtual) Answering {
	return func(r *http.Request, answer func(*http.Response, error)) {
		b.paths = append(b.paths, r.URL.Path)
		status, n := http.StatusOK, len(b.paths)
		if b.forbidden[r.URL.Path] || r.URL.Path != "/robots.txt" && n > b.from && n <= b.until {
			status = http.StatusForbidden
		}
		page := "<html><h1>Access Denied</h1></html>"
		v.AfterFunc(50*time.Millisecond, func() {
			answer(&http.Response{
				StatusCode: status, Header: http.Header{"Content-Type": {"text/html"}}, Request: r,
				Body: io.NopCloser(strings.NewReader(page)), ContentLength: int64(len(page)),
			}, nil)
		})
	}
}

// fetch fetches paths one after the other, and returns the statuses that the client sees.
func fetch(t *testing.T, v *clock.Virtual, d *Dispatcher, site Answering, paths []string) []int {
	t.Helper()
	seen := fetching(t, v, d, site, paths)
	for v.Step() {
	}
	return *seen
}

// fetching begins to fetch paths one after the other, and returns the statuses that the client sees.
func fetching(t *testing.T, v *clock.Virtual, d *Dispatcher, site Answering, paths []string) *[]int {
	t.Helper()
	var (
		next func()
		seen []int
	)
	next = func() {
		if len(seen) == len(paths) {
			return
		}
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://pages.test"+paths[len(seen)], http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		x, err := d.NewRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		x.Address = "192.0.2.1"
		d.Start(context.Background(), x, site, func(resp *http.Response, err error) {
			d.End(x, 0)
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, resp.StatusCode)
			v.AfterFunc(0, next)
		})
	}
	next()
	return &seen
}

// banning is a site that refuses everything for a minute after each 40 requests.
func banning(v *clock.Virtual) Answering {
	n, until := 0, time.Time{}
	return func(r *http.Request, answer func(*http.Response, error)) {
		status, now := http.StatusForbidden, v.Now()
		if now.After(until) {
			if n++; n%40 == 0 {
				until = now.Add(time.Minute)
			} else {
				status = http.StatusOK
			}
		}
		v.AfterFunc(50*time.Millisecond, func() {
			answer(&http.Response{StatusCode: status, Header: http.Header{}, Request: r, Body: http.NoBody}, nil)
		})
	}
}

func TestEachBanIsAnOutage(t *testing.T) {
	for _, clients := range []int{1, 8} {
		v := clock.NewVirtual(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
		d, site, began := virtual(t, v, "queue: {wait: 24h}\n"), banning(v), v.Now()
		for range clients - 1 {
			fetching(t, v, d, site, pagesOf(100/clients))
		}
		fetch(t, v, d, site, pagesOf(100/clients))
		o := d.activity.Summary().Outages["pages.test"]
		if took := v.Now().Sub(began); o.Times != 2 || o.Lasted < 2*time.Minute || o.Lasted > took {
			t.Errorf("%d clients: %+v in %v", clients, o, took)
		}
	}
}

// pagesOf are paths of some pages.
func pagesOf(n int) (paths []string) {
	for i := range n {
		paths = append(paths, "/page/"+strings.Repeat("a", i+1))
	}
	return paths
}

func TestAPageThatRefusesEverythingIsNotShown(t *testing.T) {
	v := clock.NewVirtual(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	b := &blocking{from: 20, until: 24}
	seen := fetch(t, v, virtual(t, v, "queue: {wait: 24h}\n"), b.in(v), pagesOf(40))
	for i, status := range seen {
		if status != http.StatusOK {
			t.Errorf("request %d: %d", i, status)
		}
	}
	if len(seen) != 40 || len(b.paths) > 40+8 {
		t.Errorf("%d answers, %d requests", len(seen), len(b.paths))
	}
	if again := b.paths[21]; again != "/page/a" {
		t.Errorf("it was verified with %s, which never succeeded", again)
	}
}

// Sites that refuse everything answer robots.txt, and crawlers ask for it first: it proves nothing.
func TestABlockIsNotVerifiedWithRobots(t *testing.T) {
	v := clock.NewVirtual(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	b := &blocking{from: 20, until: 24}
	seen := fetch(t, v, virtual(t, v, "queue: {wait: 24h}\n"), b.in(v), append([]string{"/robots.txt"}, pagesOf(40)...))
	for i, status := range seen {
		if status != http.StatusOK {
			t.Errorf("request %d: %d", i, status)
		}
	}
}

func TestAPageThatIsForbiddenIsShown(t *testing.T) {
	v := clock.NewVirtual(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	b := &blocking{forbidden: map[string]bool{"/secret": true, "/secret/2": true}}
	paths := append(append(pagesOf(20), "/secret"), pagesOf(5)...)
	paths = append(paths, "/secret/2", "/page/last")
	began := v.Now()
	seen := fetch(t, v, virtual(t, v, "queue: {wait: 24h}\n"), b.in(v), paths)
	for i, path := range paths {
		want := http.StatusOK
		if b.forbidden[path] {
			want = http.StatusForbidden
		}
		if seen[i] != want {
			t.Errorf("%s: %d", path, seen[i])
		}
	}
	if more := len(b.paths) - len(paths); more > 2 {
		t.Errorf("%d more requests were sent", more)
	}
	if took := v.Now().Sub(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestManyForbiddenPagesAreHardlyVerified(t *testing.T) {
	v := clock.NewVirtual(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	b := &blocking{forbidden: map[string]bool{}}
	paths := pagesOf(300)
	for i := 20; i < len(paths); i += 2 {
		b.forbidden[paths[i]] = true
	}
	for _, path := range paths[200:] {
		b.forbidden[path] = true
	}
	seen := fetch(t, v, virtual(t, v, "queue: {wait: 24h}\n"), b.in(v), paths)
	for i, path := range paths {
		if (seen[i] == http.StatusForbidden) != b.forbidden[path] {
			t.Errorf("%d: %d", i, seen[i])
		}
	}
	if more := len(b.paths) - len(paths); more > 20 {
		t.Errorf("%d more requests were sent", more)
	}
}
