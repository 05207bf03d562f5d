package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryMetricIsThereUnderItsName(t *testing.T) {
	m := New(10)
	m.Site("api.test").Request("GET", 200, time.Second)
	m.Refused("destination")
	m.Handshake("client", true)
	m.Handshake("client", false)
	m.Handshake("upstream", true)
	m.Overhead(time.Millisecond)
	m.Clients.Add(1)
	m.Clients.Add(1)
	m.Clients.Add(-1)
	m.Tunnels.Add(1)
	m.Tunnels.Add(1)
	m.Tunnels.Add(-1)
	m.Intercepted.Inc()
	m.Signed.Inc()
	m.Certificates.Ask(func() int { return 7 })
	m.BuildInfo("v0", "go1")
	m.BuildInfo("v1", "go2")
	expect(t, m, 1, "abide_own_refusals_total", "reason", "destination")
	expect(t, m, 1, "abide_tls_handshakes_total", "side", "client", "result", "ok")
	expect(t, m, 1, "abide_tls_handshakes_total", "side", "client", "result", "failed")
	expect(t, m, 1, "abide_tls_handshakes_total", "side", "upstream", "result", "ok")
	expect(t, m, 1, "abide_overhead_seconds")
	expect(t, m, 1, "abide_client_connections")
	expect(t, m, 1, "abide_tunnels")
	expect(t, m, 1, "abide_intercepted_connections_total")
	expect(t, m, 1, "abide_certificates_signed_total")
	expect(t, m, 7, "abide_certificates_cached")
	expect(t, m, 1, "abide_build_info", "version", "v1", "goversion", "go2")
	expect(t, m, 1, "abide_build_info")
	expect(t, m, 1, "abide_config_last_reload_successful")
	m.Reloaded(false)
	expect(t, m, 0, "abide_config_last_reload_successful")
	m.Reloaded(true)
	expect(t, m, 1, "abide_config_last_reload_successful")
	families := scrape(t, m)
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total"} {
		if families[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	for name, family := range families {
		if strings.HasPrefix(name, "abide_") && family.GetHelp() == "" {
			t.Errorf("%s does not say what it is", name)
		}
	}
}

func TestTwoProcessesWorthOfMetricsDoNotMeet(t *testing.T) {
	a, b := New(10), New(10)
	a.Site("api.test").Read(1)
	expect(t, b, 0, "abide_site_bytes_total", "direction", "in")
}

func TestTheRequestPathAllocatesNothing(t *testing.T) {
	m := New(100)
	do := func() {
		s := m.Site("api.test")
		s.Read(1000)
		s.Wrote(100)
		s.Request("GET", 200, 3*time.Millisecond)
		m.Overhead(20 * time.Microsecond)
		m.Refused("destination")
		m.Handshake("client", true)
		s.Waited(time.Second)
		s.Replayed("gateway")
		s.RefusedBy("route")
	}
	do()
	if n := testing.AllocsPerRun(1000, do); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequestPath(b *testing.B) {
	m := New(1000)
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("site-%d.example.com", i)
		m.Site(names[i])
	}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			s := m.Site(names[i%len(names)])
			s.Read(1000)
			s.Wrote(100)
			s.Request("GET", 200, 3*time.Millisecond)
		}
	})
}

// BenchmarkNewSites is a crawl that never comes back.
func BenchmarkNewSites(b *testing.B) {
	m := New(1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Site(fmt.Sprintf("site-%d.example.com", i)).Request("GET", 200, 3*time.Millisecond)
	}
}

func BenchmarkScrape(b *testing.B) {
	m := New(1000)
	for i := range 1000 {
		m.Site(fmt.Sprintf("site-%d.example.com", i)).Request("GET", 200, 3*time.Millisecond)
	}
	h := m.Handler()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}
