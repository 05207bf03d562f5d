package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/abide-proxy/abide/status"
)

func TestABreakerThatIsNotClosedHasASeries(t *testing.T) {
	m := New(4)
	expect(t, m, 0, "abide_breaker_state") // nobody knows of any
	m.Site("ill.test")
	m.Site("api.test")
	m.Site("nitter.pool")
	m.Site("well.test")
	list := []status.Breaker{
		{Site: "api.test", State: "open"},
		{Site: "well.test", State: "closed"},
		{Site: "ill.test", State: status.Failing},
		{Site: "nitter.pool", Backend: "nitter-a.example", State: "half-open"},
		{Site: "nitter.pool", Backend: "nitter-b.example", State: "closed"},
		{Site: "nitter.pool", Backend: "nitter-c.example:8443", State: "open"},
		{Site: "api.test", Backend: "x", State: "a state that does not exist"},
		{Site: "a.test", State: "half-open"}, // not told apart
		{Site: "b.test", Backend: "backend.test", State: "open"},
	}
	m.Breakers.Ask(func() []status.Breaker { return list })
	want := map[string]float64{
		"api.test": 2, "ill.test": 0, "nitter.pool/nitter-a.example": 1, "nitter.pool/nitter-c.example:8443": 2, "other": 2,
	}
	got := map[string]float64{}
	for _, one := range breakersOf(t, m) {
		got[one.Label[0].GetValue()] = one.GetGauge().GetValue()
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	list = []status.Breaker{{Site: "api.test", State: "closed"}}
	if left := breakersOf(t, m); len(left) > 0 {
		t.Errorf("all are closed again, and there is %v", left)
	}
}

func breakersOf(t *testing.T, m *Metrics) []*dto.Metric {
	t.Helper()
	family := scrape(t, m)["abide_breaker_state"]
	if family == nil {
		return nil
	}
	if family.GetType() != dto.MetricType_GAUGE {
		t.Errorf("it is a %v", family.GetType())
	}
	return family.Metric
}

// What operators named is no reason for Prometheus to refuse all metrics.
func TestBreakersHaveLabelsThatPrometheusTakes(t *testing.T) {
	m := New(2)
	hostile := []string{"a\x00b\xff", "q\"u\\o\nte", strings.Repeat("\u00e9", 300), "", "other"}
	var list []status.Breaker
	for _, site := range hostile {
		for _, backend := range hostile {
			list = append(list, status.Breaker{Site: site, Backend: backend, State: "open"}, status.Breaker{Site: site, Backend: backend, State: "open"})
		}
	}
	for _, site := range hostile {
		m.Site(site)
	}
	m.Breakers.Ask(func() []status.Breaker { return list })
	series := breakersOf(t, m)
	if len(series) == 0 || len(series) > 2*len(hostile)+1 {
		t.Errorf("%d series", len(series))
	}
	for _, one := range series {
		if n := len(one.Label[0].GetValue()); n > maxLabel {
			t.Errorf("a label has %d bytes", n)
		}
	}
}

func TestTheBreakersOfAMillionSitesAreBounded(t *testing.T) {
	m := New(3)
	var list []status.Breaker
	for i := range 1000 {
		name := fmt.Sprintf("%d.test", i)
		m.Site(name)
		list = append(list, status.Breaker{Site: name, State: "open"})
	}
	m.Breakers.Ask(func() []status.Breaker { return list })
	if n := len(breakersOf(t, m)); n != 4 {
		t.Errorf("%d series", n)
	}
}

func TestTheTextOfTheBreakersIsWhatAnAlertReads(t *testing.T) {
	m := New(3)
	m.Site("api.test")
	m.Breakers.Ask(func() []status.Breaker { return []status.Breaker{{Site: "api.test", State: "open"}} })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if want := "# TYPE abide_breaker_state gauge\nabide_breaker_state{site=\"api.test\"} 2\n"; !strings.Contains(w.Body.String(), want) {
		t.Errorf("the text lacks %s", want)
	}
}
