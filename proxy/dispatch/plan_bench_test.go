package dispatch

import (
	"net/http"
	"testing"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
)

// everyKind is limits of every kind of which none binds.
const everyKind = `sites:
  - host: ` + host + `
    limits:
      - {requests: 1000000000, per: 1h}
      - {requests: 1000000000, per: 10m, as: fixed}
      - {requests: 1000000000, per: 30m, as: first-use}
      - {requests: 1000000000, per: 1s, as: bucket, burst: 1000000000}
      - {requests: 1000000000000, per: 1s, as: paced}
      - {requests: 1000000000, per: month}
      - {concurrency: 100000}
      - {as: adaptive, min: 100000000/s, max: 1000000000/s}
      - {requests: 1000000000, per: 1h, by: client}
      - {requests: 1000000000, per: 1h, by: route}
      - {requests: 1000000000, per: 1h, method: GET, path: /*}
`

// BenchmarkLimits is what limits that do not bind cost one request: from what its
// plan says to its end in the queue.
func BenchmarkLimits(b *testing.B) {
	for name, yaml := range map[string]string{"none": "", "eleven": everyKind} {
		b.Run(name, func(b *testing.B) {
			s := newDispatcher(b, yaml)
			st := s.Current()
			target, err := policy.ParseTarget("http", host)
			if err != nil {
				b.Fatal(err)
			}
			match := st.policy.Match(target)
			r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+host+"/some-route", nil)
			if err != nil {
				b.Fatal(err)
			}
			var x Request
			b.ReportAllocs()
			for b.Loop() {
				x = Request{Snapshot: st, Target: target, site: match.Site, rule: match.Rule, Client: &Client{Name: "192.0.2.7", Weight: 1, Priority: queue.DefaultPriority}}
				permit, err := s.Gate().Wait(b.Context(), s.admission.ask(&x, r))
				if err != nil {
					b.Fatal(err)
				}
				permit.Finish(queue.Result{})
			}
		})
	}
}
