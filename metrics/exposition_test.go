package metrics

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

// The names, labels, buckets and values of histograms are public. The durations are sums
// of powers of two, so that the order of adding does not matter.
func TestHistogramsAreExposedAsInTheFile(t *testing.T) {
	const tick = time.Second / 8
	m := New(2)
	for i, site := range []string{"a.test", "b.test", "c.test", "d.test"} { // the first two leave
		s := m.Site(site)
		for n := range 20 {
			s.Request("GET", 200, time.Duration(n*n*n+i+1)*tick)
			s.Waited(time.Duration(n*n*n*n) * tick)
		}
	}
	m.Overhead(0)
	m.Overhead(-time.Second)
	m.Overhead(tick / 8)
	m.Overhead(2 * time.Hour)
	m.Store(func() status.Store { return status.Store{} })
	m.StoreOperation("exchange", true, tick)
	var lines strings.Builder
	for line := range strings.Lines(text(m)) {
		for _, name := range []string{"abide_upstream_duration_seconds", "abide_queue_wait_seconds", "abide_overhead_seconds", "abide_store_duration_seconds"} {
			if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), name) {
				lines.WriteString(line)
			}
		}
	}
	want, err := os.ReadFile("testdata/histograms.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := lines.String(); got != string(want) {
		t.Errorf("the histograms are\n%s", got)
	}
}
