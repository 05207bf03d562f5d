package metrics

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/status"
)

// scrape reads what Prometheus would.
func scrape(t testing.TB, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, _ := io.ReadAll(w.Body)
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		t.Fatalf("the exposition is not valid: %v", err)
	}
	return families
}

// value is the sum of the series of a family that have these labels.
func value(t testing.TB, m *Metrics, name string, labels ...string) (sum float64) {
	t.Helper()
	family := scrape(t, m)[name]
	for _, one := range family.GetMetric() {
		has := map[string]string{}
		for _, l := range one.Label {
			has[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && has[labels[i]] == labels[i+1]
		}
		if fits {
			sum += one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func expect(t testing.TB, m *Metrics, want float64, name string, labels ...string) {
	t.Helper()
	if got := value(t, m, name, labels...); got != want {
		t.Errorf("%s %v is %v, want %v", name, labels, got, want)
	}
}

func TestASiteIsCountedByMethodAndStatus(t *testing.T) {
	m := New(10)
	s := m.Site("api.test")
	s.Request("GET", 200, time.Second)
	s.Request("GET", 200, time.Second)
	s.Request("GET", 404, time.Second)
	s.Request("POST", 200, 0)
	s.Request("BREW", 418, time.Second)
	s.Request("get", 99, time.Second)
	s.Request("GET", 1000, time.Second)
	s.Read(10)
	s.Wrote(3)
	s.Read(-1)
	s.Wrote(0)
	expect(t, m, 2, "abide_requests_total", "site", "api.test", "method", "GET", "code", "200")
	expect(t, m, 1, "abide_requests_total", "site", "api.test", "method", "GET", "code", "404")
	expect(t, m, 1, "abide_requests_total", "site", "api.test", "method", "POST", "code", "200")
	expect(t, m, 1, "abide_requests_total", "site", "api.test", "method", "other", "code", "418")
	expect(t, m, 1, "abide_requests_total", "method", "other", "code", "other")
	expect(t, m, 1, "abide_requests_total", "method", "GET", "code", "other")
	expect(t, m, 6, "abide_upstream_duration_seconds", "site", "api.test")
	expect(t, m, 10, "abide_site_bytes_total", "site", "api.test", "direction", "in")
	expect(t, m, 3, "abide_site_bytes_total", "site", "api.test", "direction", "out")
	if got, want := m.Sites(), []SiteCount{{Counts: status.Counts{Name: "api.test", Requests: 7, In: 10, Out: 3}}}; !slices.Equal(got, want) {
		t.Errorf("sites are %v, want %v", got, want)
	}
}

// TestWhatNeverCameBackIsCountedApart: what abide refused itself, and what clients gave up.
func TestWhatNeverCameBackIsCountedApart(t *testing.T) {
	m := New(10)
	site := m.Site("a.test")
	for _, code := range []int{200, 499, 499, 429} {
		site.Request("GET", code, 0)
	}
	site.Denied(429, status.ByAbide+"wait")
	if c := m.Sites()[0]; c.Requests != 4 || c.Left != 2 || c.Own != 1 {
		t.Errorf("%+v", c)
	}
}

func TestTheSiteNotUsedForLongestGivesItsLabelAway(t *testing.T) {
	m := New(2)
	a := m.Site("a")
	a.Request("GET", 200, time.Second)
	m.Site("b").Read(7)
	if m.Site("a") != a {
		t.Error("a site was forgotten without need")
	}
	m.Site("c")
	if m.Site("a") != a {
		t.Error("a had to go although b was not used for longer")
	}
	expect(t, m, 0, "abide_site_bytes_total", "site", "b")
	expect(t, m, 7, "abide_site_bytes_total", "site", "other", "direction", "in")
	expect(t, m, 1, "abide_requests_total", "site", "a")
	m.Site("b").Read(2)
	expect(t, m, 2, "abide_site_bytes_total", "site", "b", "direction", "in")
	expect(t, m, 7, "abide_site_bytes_total", "site", "other", "direction", "in")
}

// TestEachSiteIsCountedApartWithoutALabel: what abide shows of a site is right with more sites than metrics.sites, too.
func TestEachSiteIsCountedApartWithoutALabel(t *testing.T) {
	const sites = 300
	m := New(3)
	for round := range 4 {
		for i := range sites {
			site := m.Site(fmt.Sprintf("site-%03d", i))
			site.Request("GET", 200, time.Second)
			site.Request("GET", 404, time.Second)
			site.Read(i + 1)
			site.Denied(404, status.ByAbide+"wait")
		}
		if list := m.Sites(); len(list) != sites || len(m.Failed()) != sites {
			t.Fatalf("%d sites, %d with failures", len(list), len(m.Failed()))
		}
		for i, one := range m.Sites() {
			n := uint64(round + 1)
			if want := (status.Counts{Name: fmt.Sprintf("site-%03d", i), Requests: 2 * n, In: n * uint64(i+1)}); one.Counts != want || one.Own != n {
				t.Fatalf("%+v, want %+v", one, want)
			}
		}
		expect(t, m, float64(2*sites*(round+1)), "abide_requests_total")
		expect(t, m, float64(2*sites*(round+1)-3*2), "abide_requests_total", "site", "other")
	}
}

// countApart has metrics count so many sites apart.
func countApart(m *Metrics, sites int) { m.sites.counted.Resize(sites) }

func TestWhoHoldsASiteThatMadeRoomLosesNothing(t *testing.T) {
	m := New(1)
	countApart(m, 1)
	a := m.Site("a")
	a.Read(5)
	m.Site("b")
	a.Read(6)
	a.Wrote(7)
	a.Request("GET", 200, time.Second)
	expect(t, m, 11, "abide_site_bytes_total", "site", "other", "direction", "in")
	expect(t, m, 7, "abide_site_bytes_total", "site", "other", "direction", "out")
	expect(t, m, 1, "abide_requests_total", "site", "other", "method", "GET", "code", "200")
	expect(t, m, 1, "abide_upstream_duration_seconds", "site", "other")
	m.Site("a").Read(1)
	expect(t, m, 1, "abide_site_bytes_total", "site", "a", "direction", "in")
	a.Read(1) // still as other
	expect(t, m, 12, "abide_site_bytes_total", "site", "other", "direction", "in")
}

func TestASiteCalledOtherIsCountedWithTheOthers(t *testing.T) {
	m := New(5)
	m.Site("other").Read(1)
	expect(t, m, 1, "abide_site_bytes_total", "site", "other", "direction", "in")
	if got, want := m.Sites(), []SiteCount{{Counts: status.Counts{Name: "other", In: 1}}}; !slices.Equal(got, want) {
		t.Errorf("sites are %v, want %v", got, want)
	}
}

func TestNoNameThatAClientChoosesBreaksTheExposition(t *testing.T) {
	names := []string{
		`a"b`, "a\nb", `a\b`, "a\xffb", "\xff\xfe\xfd", "", "\x00", "{site=\"x\"} 1\nevil 1", "ünï.test", "a\u2028b", "<img onerror=x>",
		strings.Repeat("x", 10_000), strings.Repeat("a\xff", 300), strings.Repeat("é", 200), "a\xfeb", "site", "__name__", "other",
	}
	m := New(100)
	for _, name := range names {
		m.Site(name).Request(name, 200, time.Millisecond)
		m.Site(name).Read(1)
		m.Refused(name)
		m.Handshake(name, true)
		m.BuildInfo(name, name)
		m.Site(name).Waited(time.Second)
		m.Site(name).Replayed(name)
		m.Site(name).RefusedBy(name)
	}
	m.Holds.Ask(func() map[status.HeldCount]int {
		all := map[status.HeldCount]int{}
		for i, name := range names {
			all[status.HeldCount{Site: name, Priority: i - 3}]++
			all[status.HeldCount{Site: name + "?", Priority: 3}]++
		}
		return all
	})
	m.Blocked.Ask(func() (all []status.BlockedTime) {
		for _, name := range names {
			all = append(all, status.BlockedTime{Site: name, Limit: name, Seconds: 1}, status.BlockedTime{Site: "?" + name, Limit: name, Seconds: 1})
		}
		return all
	})
	families := scrape(t, m)
	for name, family := range families {
		if strings.HasPrefix(name, "abide_") {
			for _, one := range family.Metric {
				for _, l := range one.Label {
					if !utf8.ValidString(l.GetValue()) || len(l.GetValue()) > maxLabel || !slices.Contains([]string{
						"site", "method", "code", "direction", "reason", "side", "result", "version", "goversion", "scope", "priority", "limit", "listener",
					}, l.GetName()) {
						t.Errorf("%s has the label %s=%q", name, l.GetName(), l.GetValue())
					}
				}
			}
		} else if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
			t.Errorf("a metric of the name %q", name)
		}
	}
	expect(t, m, float64(len(names)), "abide_site_bytes_total", "direction", "in")
	expect(t, m, 1, "abide_site_bytes_total", "direction", "in", "site", `a"b`)
	expect(t, m, 1, "abide_site_bytes_total", "direction", "in", "site", "a\nb")
	expect(t, m, 2, "abide_site_bytes_total", "direction", "in", "site", "a\uFFFDb")
}

func FuzzLabel(f *testing.F) {
	for _, s := range []string{"", "a.test", "a\xff", strings.Repeat("a\xff", 200), strings.Repeat("é", 128)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l := label(s)
		if !utf8.ValidString(l) || len(l) > maxLabel || label(l) != l {
			t.Errorf("%q became %q", s, l)
		}
		if len(s) <= maxLabel && utf8.ValidString(s) && l != s {
			t.Errorf("%q became %q without need", s, l)
		}
	})
}

func TestReasonsAreBounded(t *testing.T) {
	m := New(1)
	for i := range 1000 {
		m.Refused(fmt.Sprint("reason ", i))
	}
	if n := len(scrape(t, m)["abide_own_refusals_total"].Metric); n > maxChildren+1 {
		t.Errorf("%d series", n)
	}
	expect(t, m, 1000, "abide_own_refusals_total")
}

// totals are the sums over all sites, which no site's coming or going may change.
func totals(m *Metrics) (sum SiteCount) {
	for _, s := range m.Sites() {
		sum.Requests += s.Requests
		sum.In += s.In
		sum.Out += s.Out
		for i, n := range s.Unread {
			sum.Unread[i] += n
		}
	}
	return sum
}

func TestNothingIsLostOrCountedTwiceInAnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := New(rapid.IntRange(1, 5).Draw(rt, "max"))
		apart := m.sites.max + rapid.IntRange(0, 5).Draw(rt, "more that are counted apart")
		countApart(m, apart)
		most := rapid.Int64Range(0, 5).Draw(rt, "most times")
		m.sites.free.Store(most)
		var held []*Site
		var want SiteCount
		lastOther := map[string]float64{}
		rt.Repeat(map[string]func(*rapid.T){
			"ask": func(rt *rapid.T) {
				held = append(held, m.Site(rapid.StringMatching(`[a-j]`).Draw(rt, "name")))
			},
			"rest": func(rt *rapid.T) {
				if len(held) > 0 {
					site := rapid.SampledFrom(held).Draw(rt, "site")
					if m.sites.mu.Lock(); site != m.sites.other {
						m.sites.endTimes(site)
					}
					m.sites.mu.Unlock()
				}
			},
			"count": func(rt *rapid.T) {
				if len(held) == 0 {
					held = append(held, m.Site("a"))
				}
				s := rapid.SampledFrom(held).Draw(rt, "site")
				n := rapid.IntRange(0, 1000).Draw(rt, "n")
				s.Read(n)
				s.Wrote(2 * n)
				s.Request(groups[requests].words[n%10], 100+n%600, time.Duration(n+1)*time.Second)
				s.Waited(time.Duration(n) * time.Second)
				s.Replayed(groups[replays].words[n%6])
				s.RefusedBy(groups[refusals].words[n%4])
				reason := n % len(want.Unread)
				s.Unread(groups[unread].words[reason])
				want.Unread[reason]++
				want.In += uint64(n)
				want.Out += 2 * uint64(n)
				want.Requests++
			},
			"": func(rt *rapid.T) {
				if got := totals(m); got != want {
					rt.Fatalf("the sites sum up to %v, want %v", got, want)
				}
				var sent, refused uint64
				for _, s := range m.sites.all() {
					if t := s.times.Load(); t != nil && read(t.took.(prometheus.Metric)).GetSampleCount() > want.Requests {
						rt.Fatalf("%s has %d durations of %d requests", s.name, read(t.took.(prometheus.Metric)).GetSampleCount(), want.Requests)
					}
					for at, n := range s.counts.all() {
						switch at.group {
						case replays:
							sent += n.Load()
						case refusals:
							refused += n.Load()
						}
					}
				}
				if sent != want.Requests || refused != want.Requests {
					rt.Fatalf("%d replays and %d refusals, want %d of each", sent, refused, want.Requests)
				}
				for _, one := range m.sites.collect(time.Now()) {
					if c := one.(*counterSnapshot); *c.labels[len(c.labels)-1].Value == other {
						key := fmt.Sprint(c.desc, c.labels)
						if c.value < lastOther[key] {
							rt.Fatalf("%s fell from %v to %v", key, lastOther[key], c.value)
						}
						lastOther[key] = c.value
					}
				}
				series := most - m.sites.free.Load()
				for _, s := range m.sites.all()[1:] {
					if s.times.Load() != nil {
						series--
					}
				}
				if series != 0 || m.sites.free.Load() < 0 {
					rt.Fatalf("%d places of %d are lost", series, most)
				}
				if counted := len(m.sites.all()) - 1; counted > apart || m.sites.order.Len() > m.sites.max {
					rt.Fatalf("%d sites are counted apart, %d have labels", counted, m.sites.order.Len())
				}
			},
		})
	})
}

func TestNothingIsLostWhileManyCountAtOnce(t *testing.T) {
	m := New(8)
	countApart(m, 20)
	const workers, rounds = 8, 5000
	var work, watch sync.WaitGroup
	done := make(chan struct{})
	watch.Go(func() {
		var last float64
		for {
			select {
			case <-done:
				return
			default:
			}
			now := value(t, m, "abide_site_bytes_total", "site", "other")
			if now < last {
				t.Errorf("other fell from %v to %v", last, now)
			}
			last = now
		}
	})
	for w := range workers {
		work.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			held := m.Site("first")
			for range rounds {
				if r.IntN(3) == 0 {
					held = m.Site(fmt.Sprint("site ", r.IntN(40)))
				}
				held.Read(1)
				held.Wrote(2)
				held.Request("GET", 200+r.IntN(3), time.Millisecond)
			}
		})
	}
	work.Wait()
	close(done)
	watch.Wait()
	if got, want := totals(m), (SiteCount{Counts: status.Counts{Requests: workers * rounds, In: workers * rounds, Out: 2 * workers * rounds}}); got != want {
		t.Errorf("the sites sum up to %v, want %v", got, want)
	}
}
