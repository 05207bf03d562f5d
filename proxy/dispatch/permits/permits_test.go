package permits

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/status"
)

func TestPermitsAreBounded(t *testing.T) {
	p, err := policy.Load(policy.Source{
		Path: "test.yaml", Lookup: func(string) (string, bool) { return "", false },
		Data: []byte("data: none\ndefaults: {learn: off}\nsites:\n  - {host: site.test, limits: [{requests: 1000000, per: 1h, as: fixed}]}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	log, m := logrus.New(), metrics.New(100)
	log.SetOutput(io.Discard)
	d, err := dispatch.New(dispatch.Options{Policy: p, Metrics: m, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s := New(d, m)
	left := func() int64 {
		for _, l := range dispatch.NewView(d, nil).WrittenLimits() {
			return l.Left
		}
		return -1
	}
	for i := range most {
		s.out[fmt.Sprint(i)] = nil
	}
	before := left()
	var denied *status.Denied
	if _, err := s.Permit(t.Context(), status.PermitAsk{URL: "http://site.test/", Priority: -1}); !errors.As(err, &denied) || denied.Reason != "permits" || denied.Status != 503 || denied.RetryAt.IsZero() {
		t.Errorf("%v", err)
	}
	if after := left(); before >= 0 && after != before || after >= 0 && after != 1000000 {
		t.Errorf("%d and then %d are left", before, after)
	}
	if sites, held := d.Gate().Len(); held != 0 {
		t.Errorf("%d requests are held at %d sites", held, sites)
	}
}
