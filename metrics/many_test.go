package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ofMany are metrics of many sites that were asked now.
func ofMany(sites int) *Metrics {
	m := New(sites)
	for i := range sites {
		s := m.Site(fmt.Sprintf("www.site-%d.example.com", i))
		s.Request("GET", 200, 20*time.Millisecond)
		s.Request("GET", 404, 30*time.Millisecond)
		s.Waited(0)
		s.Waited(time.Second)
		s.Read(1000)
		s.Wrote(100)
	}
	return m
}

// text is one scrape.
func text(m *Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestAScrapeOfManySitesIsBounded(t *testing.T) {
	const sites = 10_000
	m := ofMany(sites)
	all := text(m)
	if most := 500*sites + maxHistograms*5000; len(all) > most {
		t.Errorf("a scrape of %d sites has %d bytes, more than %d", sites, len(all), most)
	}
	if n := strings.Count(all, "abide_upstream_duration_seconds_count{"); n != maxHistograms+1 {
		t.Errorf("%d sites have histograms", n)
	}
	if got := value(t, m, "abide_upstream_duration_seconds"); got != 2*sites {
		t.Errorf("%v durations in all", got)
	}
	if got := value(t, m, "abide_requests_total"); got != 2*sites {
		t.Errorf("%v requests in all", got)
	}
}

func TestSeriesOfIdleSitesAreLeftOutAndComeBackAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := ofMany(200)
		idle, busy := m.Site("www.site-1.example.com"), m.Site("www.site-199.example.com")
		last := ""
		for range 2 * time.Hour / time.Minute {
			busy.Request("GET", 200, time.Millisecond)
			last = text(m)
			time.Sleep(time.Minute)
		}
		if strings.Contains(last, "site-1.example") || !strings.Contains(last, "abide_requests_total{code=\"200\",method=\"GET\",site=\"www.site-199.example.com\"} 121") {
			t.Error("the series of an idle site are there, or those of a busy one are not")
		}
		if !strings.Contains(last, "abide_upstream_duration_seconds_count{site=\"www.site-199.example.com\"}") {
			t.Error("an idle site keeps a busy one from having histograms")
		}
		if n := len(m.Sites()); n < 200 {
			t.Errorf("%d sites are counted", n)
		}
		idle.Request("GET", 200, time.Millisecond)
		if got := value(t, m, "abide_requests_total", "site", "www.site-1.example.com"); got != 3 {
			t.Errorf("it comes back with %v", got)
		}
		if got := value(t, m, "abide_upstream_duration_seconds", "site", "www.site-199.example.com"); got < 100 {
			t.Errorf("the busy site has %v durations of its own", got)
		}
	})
}

func TestNothingThatIsZeroHasASeries(t *testing.T) {
	m := New(10)
	m.Site("asked.test").Request("GET", 200, 0)
	if all := text(m); strings.Contains(all, "abide_site_bytes_total{") {
		t.Error("a site without a byte has series of bytes")
	}
}

func BenchmarkScrapeOfManySites(b *testing.B) {
	for _, sites := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(sites), func(b *testing.B) {
			m := ofMany(sites)
			b.ReportAllocs()
			for b.Loop() {
				b.ReportMetric(float64(len(text(m))), "B/scrape")
			}
		})
	}
}
