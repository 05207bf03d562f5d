package dispatch

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
)

// host is the site of most tests.
const host = "api.test"

// newDispatcher is one with a configuration, that reaches nothing.
func newDispatcher(t testing.TB, yaml string) *Dispatcher {
	t.Helper()
	p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte("data: none\n" + yaml), Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	s, err := New(Options{Policy: p, Metrics: metrics.New(100), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
